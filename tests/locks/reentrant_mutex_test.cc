#include "stockade/locks/reentrant_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "lock_test_util.h"

namespace stockade {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AwaitWaiters;
using testing::AwaitWaiterUnless;
using testing::OnOtherThread;
using testing::OtherGetsIn;

// With the FIFO option and without.
class ReentrantMutexTest : public ::testing::TestWithParam<bool> {
 protected:
  ReentrantMutex mutex_{{.fifo = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Options, ReentrantMutexTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

TEST_P(ReentrantMutexTest, Lock_ReenteredManyTimes_OthersEnterAfterTheLastUnlock) {
  constexpr uint32_t kTimes = 1000;
  for (uint32_t i = 1; i <= kTimes; ++i) {
    mutex_.lock();
    EXPECT_EQ(mutex_.hold_count(), i);
  }
  for (uint32_t i = kTimes; i > 1; --i) mutex_.unlock();
  EXPECT_FALSE(OtherGetsIn(mutex_));
  mutex_.unlock();
  EXPECT_EQ(mutex_.hold_count(), 0u);
  EXPECT_TRUE(OtherGetsIn(mutex_));
}

TEST_P(ReentrantMutexTest, TryLock_EveryKindWhileHeld_Reenters) {
  ASSERT_TRUE(mutex_.try_lock());
  EXPECT_TRUE(mutex_.try_lock());
  EXPECT_TRUE(mutex_.try_lock_for(milliseconds(0)));
  EXPECT_TRUE(mutex_.try_lock_until(steady_clock::now()));
  EXPECT_EQ(mutex_.hold_count(), 4u);
  for (int i = 0; i < 4; ++i) mutex_.unlock();
  EXPECT_TRUE(OtherGetsIn(mutex_));
}

TEST_P(ReentrantMutexTest, HeldByCurrentThread_HeldByOne_IsFalseForAnother) {
  mutex_.lock();
  EXPECT_TRUE(mutex_.held_by_current_thread());
  EXPECT_FALSE(OnOtherThread([&] { return mutex_.held_by_current_thread(); }));
  EXPECT_EQ(OnOtherThread([&] { return mutex_.hold_count(); }), 0u);
  mutex_.unlock();
  EXPECT_FALSE(mutex_.held_by_current_thread());
}

// The upper bound is loose, since the machine may be busy; a wait that hangs or is counted in wrong units is caught.
TEST_P(ReentrantMutexTest, TryLockFor_HeldByAnother_IsFalseAfterItsTimeAndNotMuchLater) {
  mutex_.lock();
  const auto took = OnOtherThread([&] {
    const auto began = steady_clock::now();
    EXPECT_FALSE(mutex_.try_lock_for(milliseconds(30)));
    return steady_clock::now() - began;
  });
  EXPECT_GE(took, milliseconds(30));
  EXPECT_LT(took, std::chrono::seconds(20));
  EXPECT_EQ(mutex_.waiters(), 0u);
  mutex_.unlock();
}

TEST_P(ReentrantMutexTest, TryLockUntil_OnTheSystemClock_IsFalseNoEarlier) {
  mutex_.lock();
  const auto deadline = std::chrono::system_clock::now() + milliseconds(20);
  EXPECT_FALSE(OnOtherThread([&] { return mutex_.try_lock_until(deadline); }));
  EXPECT_GE(std::chrono::system_clock::now(), deadline);
  mutex_.unlock();
}

TEST_P(ReentrantMutexTest, TryLockUntil_DeadlinesAtTheEndsOfTheClock_DoNotWrap) {
  mutex_.lock();
  std::thread([&] {
    EXPECT_FALSE(mutex_.try_lock_until(steady_clock::time_point::min()));
    EXPECT_FALSE(mutex_.try_lock_until(std::chrono::system_clock::time_point::min()));
    EXPECT_FALSE(mutex_.try_lock_for(std::chrono::hours::min()));
  }).join();
  std::thread waiter([&] {
    EXPECT_TRUE(mutex_.try_lock_for(std::chrono::hours::max()));
    mutex_.unlock();
    EXPECT_TRUE(mutex_.try_lock_until(std::chrono::system_clock::time_point::max()));
    mutex_.unlock();
  });
  AwaitWaiters(mutex_, 1);
  mutex_.unlock();
  waiter.join();
}

TEST_P(ReentrantMutexTest, TryLockFor_ReleasedWhileItWaits_IsTrue) {
  mutex_.lock();
  std::thread waiter([&] {
    EXPECT_TRUE(mutex_.try_lock_for(std::chrono::hours(1)));
    mutex_.unlock();
  });
  AwaitWaiters(mutex_, 1);
  mutex_.unlock();
  waiter.join();
}

TEST_P(ReentrantMutexTest, TryLockFor_FirstInTheQueueGivesUp_TheNextGetsIn) {
  mutex_.lock();
  std::atomic<bool> gave_up = false;
  std::thread first([&] {
    EXPECT_FALSE(mutex_.try_lock_for(milliseconds(50)));
    gave_up = true;
  });
  AwaitWaiterUnless(gave_up, mutex_);
  std::thread second([&] { std::lock_guard lock(mutex_); });
  first.join();
  AwaitWaiters(mutex_, 1);
  mutex_.unlock();
  second.join();
}

TEST_P(ReentrantMutexTest, Lock_ManyThreads_ExcludeEachOther) {
  int64_t plain = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        std::lock_guard outer(mutex_);
        std::lock_guard inner(mutex_);
        ++plain;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plain, 8000);
}

TEST(ReentrantMutexAdaptorsTest, StandardAdaptors_LockAndUnlock) {
  ReentrantMutex a;
  ReentrantMutex b;
  {
    std::lock_guard lock(a);
    EXPECT_EQ(a.hold_count(), 1u);
  }
  {
    std::unique_lock lock(a, std::defer_lock);
    EXPECT_TRUE(lock.try_lock_for(milliseconds(1)));
    std::unique_lock moved = std::move(lock);
    EXPECT_TRUE(moved.owns_lock());
  }
  {
    std::scoped_lock lock(a, b);
    EXPECT_EQ(a.hold_count() + b.hold_count(), 2u);
  }
  {
    ReentrantMutexGuard guard(a);
    EXPECT_TRUE(a.held_by_current_thread());
  }
  EXPECT_TRUE(OtherGetsIn(a) && OtherGetsIn(b));
}

TEST(ReentrantMutexNameTest, Name_GivenOrNot_IsWhatTheOptionsSay) {
  EXPECT_EQ(ReentrantMutex().name(), "");
  EXPECT_EQ(ReentrantMutex({.name = "orders", .metrics = nullptr}).name(), "orders");
}

class ReentrantMutexDeathTest : public ::testing::Test {
 protected:
  ReentrantMutexDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ReentrantMutex mutex_{{.name = "orders"}};
};

TEST_F(ReentrantMutexDeathTest, Unlock_HeldByNobody_AbortsWithName) {
  EXPECT_DEATH(mutex_.unlock(), "ReentrantMutex 'orders': unlock\\(\\) by a thread that does not hold it");
}

TEST_F(ReentrantMutexDeathTest, Unlock_ByAnotherThread_AbortsWithName) {
  EXPECT_DEATH(
      {
        mutex_.lock();
        std::thread([&] { mutex_.unlock(); }).join();
      },
      "ReentrantMutex 'orders': unlock");
}

TEST_F(ReentrantMutexDeathTest, Unlock_OfAnUnnamedLock_SaysUnnamed) {
  EXPECT_DEATH(ReentrantMutex().unlock(), "ReentrantMutex 'unnamed': unlock");
}

TEST_F(ReentrantMutexDeathTest, Lock_PastTheLargestHoldCount_Aborts) {
  EXPECT_DEATH(
      {
        for (uint32_t i = 0; i <= locks_internal::LockCore::kMaxHolds; ++i) mutex_.lock();
      },
      "ReentrantMutex 'orders': held 16777216 times");
}

TEST_F(ReentrantMutexDeathTest, Construct_WithABadName_AbortsWithValidatesText) {
  EXPECT_DEATH(ReentrantMutex({.name = "two\nlines"}),
               "LockOptions.name 'two.*lines' has characters that are not printable");
}

TEST(LockOptionsTest, Validate_Names_WithinAndBeyondTheLimits) {
  EXPECT_TRUE(LockOptions{}.Validate().ok());
  EXPECT_TRUE(LockOptions{.name = std::string(128, 'x')}.Validate().ok());
  EXPECT_FALSE(LockOptions{.name = std::string(129, 'x')}.Validate().ok());
  EXPECT_FALSE(LockOptions{.name = "caf\xc3\xa9"}.Validate().ok());
}

}  // namespace
}  // namespace stockade
