// What a holder learns when servers are cut off from each other, and he is on the wrong side.
#include "locks/zookeeper/zookeeper_engine_fixture.h"
#include "zookeeper/support/zookeeper_ensemble.h"

namespace stockade {
namespace {

using testing::Holder;
using testing::ZooKeeperEngineOn;
using testing::ZooKeeperEnsemble;

class ZooKeeperPartitionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_ZOOKEEPER();
    static auto* const ensemble = new ZooKeeperEnsemble();
    ensemble_ = ensemble;
    ensemble_->Repair();
    ensemble_->Wipe();
  }

  // A lock that is held by way of this server alone, which is then cut off, goes to a waiter at another server: not
  // before the holder's session is over by the holder's clock.
  void ExpectOverBeforeTheNextEnters(size_t cut_off) {
    const size_t other = (cut_off + 1) % ZooKeeperEnsemble::kSize;
    const auto engine = ZooKeeperEngineOn(ensemble_->url(cut_off), {.session_timeout = absl::Milliseconds(1500)});
    const auto waiters = ZooKeeperEngineOn(ensemble_->url(other), {.session_timeout = absl::Seconds(20)});
    ASSERT_NE(engine, nullptr);
    ASSERT_NE(waiters, nullptr);
    Holder holder(*engine, "a");
    Holder waiter(*waiters, "a");
    LockTry held;
    // A busy machine may end the short session too early.
    testing::Await("a holder and a waiter", [&] {
      held = holder.Queue();
      if (!held.acquired) return false;
      if (!waiter.Queue().acquired) return true;
      EXPECT_LT(held.session->ValidUntil(), Clock::System()->Now());
      EXPECT_TRUE(waiter.Release().held);
      return false;
    });
    ensemble_->CutOff(cut_off);
    LockTry entered = waiter.Queue();
    testing::Await("the waiter to enter", [&] {
      if (!entered.acquired) entered = waiter.Queue();
      return entered.acquired;
    });
    EXPECT_LT(held.session->ValidUntil(), Clock::System()->Now());
    EXPECT_GT(*entered.fencing_token, *held.fencing_token);
  }

  ZooKeeperEnsemble* ensemble_ = nullptr;
};

TEST_F(ZooKeeperPartitionTest, LeaderCutOffWithTheHolder_IsOverBeforeTheNextEnters) {
  ExpectOverBeforeTheNextEnters(ensemble_->LeaderIndex());
}

TEST_F(ZooKeeperPartitionTest, FollowerCutOffWithTheHolder_IsOverBeforeTheNextEnters) {
  ExpectOverBeforeTheNextEnters(ensemble_->FollowerIndex());
}

TEST_F(ZooKeeperPartitionTest, FollowerCutOff_HolderWhoFindsAnotherServerKeepsIt) {
  const auto engine = ZooKeeperEngineOn(ensemble_->url(), {.session_timeout = absl::Seconds(20)});
  ASSERT_NE(engine, nullptr);
  Holder holder(*engine, "a");
  const LockTry held = holder.Queue();
  ASSERT_TRUE(held.acquired);
  ensemble_->CutOff(ensemble_->FollowerIndex());
  const Instant cut = Clock::System()->Now();
  testing::Await("the session to be extended beyond the cut",
                 [&] { return held.session->ValidUntil() > cut + absl::Seconds(20); });
  EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held);
}

}  // namespace
}  // namespace stockade
