// The hints that a waiter gets of a release.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "locks/redlock/five_servers.h"
#include "redlock_engine.h"

namespace stockade {
namespace {

using testing::Await;

class RedlockHintTest : public testing::FiveServersTest {
 protected:
  void SetUp() override {
    FiveServersTest::SetUp();
    if (IsSkipped()) return;
    engine_ = locks_internal::RedlockEngine::Connect(Urls(), {.redis = {.metrics = nullptr}}).value();
    LockTry step = {.hold = hold_, .lease = absl::Hours(1), .sequence = 1, .timeout = absl::Seconds(20)};
    engine_->TryMany({&step, 1});
    ASSERT_TRUE(step.acquired) << step.status;
  }
  void Release() {
    LockRelease step = {.hold = hold_, .sequence = 2, .timeout = absl::Seconds(20)};
    engine_->Release(step);
    ASSERT_TRUE(step.held) << step.status;
  }
  void AwaitHints(int count) {
    Await(std::to_string(count) + " hints", [&] { return hints_ >= count; });
  }

  const HoldKey hold_ = {.name = "a", .owner = LockOwner::ThisThread().id()};
  std::unique_ptr<locks_internal::RedlockEngine> engine_;
  std::atomic<int> hints_ = 0;
};

TEST_F(RedlockHintTest, Release_IsHeard) {
  const auto watch = engine_->Watch(hold_, [&] { ++hints_; });
  AwaitHints(1);  // A majority listens.
  Release();
  AwaitHints(2);
}

TEST_F(RedlockHintTest, TwoServersAway_ReleaseIsHeard) {
  server(0).Kill();
  server(3).Pause();
  const auto watch = engine_->Watch(hold_, [&] { ++hints_; });
  AwaitHints(1);
  Release();
  AwaitHints(2);
}

TEST_F(RedlockHintTest, MajorityIsHeardAgainAfterAGap_IsAHint) {
  const auto watch = engine_->Watch(hold_, [&] { ++hints_; });
  AwaitHints(1);
  Await("all servers", [&] {
    for (const auto& server : servers_) {
      if (server->Call({"PUBSUB", "NUMSUB", "redisson_lock__channel:{a}"}).items[1] != "1") return false;
    }
    return true;
  });
  for (const auto& server : servers_) server->Call({"CLIENT", "KILL", "TYPE", "pubsub"});
  AwaitHints(2);
}

}  // namespace
}  // namespace stockade
