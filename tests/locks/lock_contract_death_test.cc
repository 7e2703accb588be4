// What aborts, in every condition that a lock can be in.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "conditioned_lock.h"
#include "support/forked_child.h"

namespace stockade {
namespace {

using testing::ConditionedLock;
using testing::InForkedChild;

class LockContractDeathTest : public ::testing::TestWithParam<testing::LockSetting> {
 protected:
  LockContractDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // What its message begins with.
  std::string Message(const std::string& what) const {
    return std::string("ReentrantSharedMutex '") + (GetParam().fifo ? "unnamed" : "catalogue") + "': " + what;
  }

  ConditionedLock lock_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Settings, LockContractDeathTest, ::testing::ValuesIn(testing::AllSettings()), testing::NameOf);

TEST_P(LockContractDeathTest, Lock_WhileOnlyReading_Aborts) {
  EXPECT_DEATH(
      {
        lock_->lock_shared();
        lock_->lock();
      },
      Message("lock\\(\\) by a thread that holds it for reading"));
}

TEST_P(LockContractDeathTest, Release_ByWhoDoesNotHold_Aborts) {
  const std::string unlock = Message("unlock\\(\\) by a thread that does not hold it");
  const std::string unlock_shared = Message("unlock_shared\\(\\) by a thread that does not hold it for reading");
  EXPECT_DEATH(lock_->unlock(), unlock);
  EXPECT_DEATH(lock_->unlock_shared(), unlock_shared);
  EXPECT_DEATH((lock_->lock(), lock_.companion().Do([&] { lock_->unlock(); })), unlock);
  EXPECT_DEATH((lock_->lock_shared(), lock_.companion().Do([&] { lock_->unlock_shared(); })), unlock_shared);
}

TEST_P(LockContractDeathTest, Release_OfTheOtherMode_Aborts) {
  EXPECT_DEATH((lock_->lock_shared(), lock_->unlock()), Message("unlock\\(\\) by"));
  EXPECT_DEATH((lock_->lock(), lock_->unlock_shared()), Message("unlock_shared\\(\\) by"));
  EXPECT_DEATH((lock_->lock(), (void)lock_->try_upgrade()), Message("try_upgrade\\(\\) by"));
  EXPECT_DEATH((lock_->lock_shared(), lock_->downgrade()), Message("downgrade\\(\\) by"));
}

TEST_P(LockContractDeathTest, ThreadEnds_WhileItHolds_Aborts) {
  const std::string ends = Message("held by a thread that ends");
  EXPECT_DEATH(std::thread([&] { lock_->lock(); }).join(), ends);
  EXPECT_DEATH(std::thread([&] { lock_->lock_shared(); }).join(), ends);
}

TEST_P(LockContractDeathTest, ThreadEnds_WhileItHoldsWhatIsItsOwnByFavour_Aborts) {
  EXPECT_DEATH(std::thread([&] {
                 testing::WriteOften(*lock_);
                 lock_->lock();
               }).join(),
               Message("held by a thread that ends"));
}

TEST_P(LockContractDeathTest, ThreadEnds_WhileItHoldsInItsOverflow_Aborts) {
  EXPECT_DEATH(std::thread([&] {
                 const testing::OtherHolds others(testing::OtherHolds::Where::kEverywhere, 0);
                 lock_->lock_shared();
               }).join(),
               Message("held by a thread that ends"));
}

TEST_P(LockContractDeathTest, Destroy_WhileItIsHeld_Aborts) {
  const std::string destroyed = Message("destroyed while it is held or waited for");
  EXPECT_DEATH((lock_->lock(), lock_.Destroy()), destroyed);
  EXPECT_DEATH((lock_->lock_shared(), lock_.Destroy()), destroyed);
  EXPECT_DEATH((lock_.companion().Do([&] { lock_->lock(); }), lock_.Destroy()), destroyed);
  EXPECT_DEATH((lock_.companion().Do([&] { lock_->lock_shared(); }), lock_.Destroy()), destroyed);
}

TEST_P(LockContractDeathTest, Destroy_WhenItIsFreeAgain_DoesNotAbort) {
  lock_->lock();
  lock_->unlock();
  lock_.Destroy();
  lock_.Renew();
  lock_.companion().Do([&] {
    lock_->lock_shared();
    lock_->unlock_shared();
  });
  lock_.Destroy();
}

TEST_P(LockContractDeathTest, Fork_EveryCallInTheChild_Aborts) {
  const auto aborts = [&](auto call) {
    const int status = InForkedChild(call);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  };
  EXPECT_TRUE(aborts([&] { lock_->lock(); }));
  EXPECT_TRUE(aborts([&] { (void)lock_->try_lock(); }));
  EXPECT_TRUE(aborts([&] { lock_->lock_shared(); }));
  EXPECT_TRUE(aborts([&] { (void)lock_->try_lock_shared(); }));
  EXPECT_TRUE(aborts([&] { (void)lock_->held_by_current_thread(); }));
  lock_->lock();
  EXPECT_TRUE(aborts([&] { lock_->lock(); }));
  EXPECT_TRUE(aborts([&] { lock_->unlock(); }));
  EXPECT_TRUE(aborts([&] { lock_->downgrade(); }));
  lock_->unlock();
  lock_.Renew();
  lock_->lock_shared();
  EXPECT_TRUE(aborts([&] { lock_->lock_shared(); }));
  EXPECT_TRUE(aborts([&] { lock_->unlock_shared(); }));
  EXPECT_TRUE(aborts([&] { (void)lock_->try_upgrade(); }));
  lock_->unlock_shared();
  EXPECT_TRUE(lock_.OtherGetsIn());  // The parent is as it was.
}

TEST_P(LockContractDeathTest, Fork_DestructorInTheChildWhileHeld_DoesNothing) {
  lock_.companion().Do([&] { lock_->lock_shared(); });
  const int status = InForkedChild([&] { lock_.Destroy(); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  lock_.companion().Do([&] { lock_->unlock_shared(); });
}

}  // namespace
}  // namespace stockade
