#include "stockade/locks/reentrant_shared_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "lock_test_util.h"

namespace stockade {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AwaitWaiters;
using testing::AwaitWaiterUnless;
using testing::OnOtherThread;
using testing::OtherGetsIn;
using testing::OtherReads;

// With the FIFO option and without.
class ReentrantSharedMutexTest : public ::testing::TestWithParam<bool> {
 protected:
  ReentrantSharedMutex mutex_{{.fifo = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Options, ReentrantSharedMutexTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

TEST_P(ReentrantSharedMutexTest, Lock_ReenteredManyTimes_OthersEnterAfterTheLastUnlock) {
  for (int i = 0; i < 1000; ++i) mutex_.lock();
  EXPECT_EQ(mutex_.write_hold_count(), 1000u);
  for (int i = 0; i < 999; ++i) mutex_.unlock();
  EXPECT_FALSE(OtherReads(mutex_));
  mutex_.unlock();
  EXPECT_TRUE(OtherGetsIn(mutex_));
}

TEST_P(ReentrantSharedMutexTest, LockShared_ReenteredManyTimes_WritersEnterAfterTheLastUnlock) {
  for (int i = 0; i < 1000; ++i) mutex_.lock_shared();
  EXPECT_EQ(mutex_.read_hold_count(), 1000u);
  for (int i = 0; i < 999; ++i) mutex_.unlock_shared();
  EXPECT_TRUE(OtherReads(mutex_));
  EXPECT_FALSE(OtherGetsIn(mutex_));
  mutex_.unlock_shared();
  EXPECT_TRUE(OtherGetsIn(mutex_));
}

TEST_P(ReentrantSharedMutexTest, LockShared_NestedWhileAWriterWaits_Succeeds) {
  mutex_.lock_shared();
  std::thread writer([&] { std::lock_guard lock(mutex_); });
  AwaitWaiters(mutex_, 1);
  mutex_.lock_shared();
  EXPECT_TRUE(mutex_.try_lock_shared());
  EXPECT_TRUE(mutex_.try_lock_shared_for(milliseconds(0)));
  EXPECT_EQ(mutex_.read_hold_count(), 4u);
  for (int i = 0; i < 4; ++i) mutex_.unlock_shared();
  writer.join();
}

TEST_P(ReentrantSharedMutexTest, LockAndLockShared_UnderOnesOwnWrite_Succeed) {
  mutex_.lock();
  mutex_.lock();
  mutex_.lock_shared();
  EXPECT_TRUE(mutex_.try_lock());
  EXPECT_TRUE(mutex_.try_lock_shared());
  EXPECT_EQ(mutex_.write_hold_count(), 3u);
  EXPECT_EQ(mutex_.read_hold_count(), 2u);
  mutex_.unlock_shared();
  mutex_.unlock_shared();
  for (int i = 0; i < 3; ++i) mutex_.unlock();
  EXPECT_TRUE(OtherGetsIn(mutex_));
}

TEST_P(ReentrantSharedMutexTest, Unlock_WriteBeforeTheReadUnderIt_LeavesAReader) {
  mutex_.lock();
  mutex_.lock_shared();
  mutex_.unlock();
  EXPECT_TRUE(OtherReads(mutex_));
  EXPECT_FALSE(OtherGetsIn(mutex_));
  mutex_.unlock_shared();
  EXPECT_TRUE(OtherGetsIn(mutex_));
}

TEST_P(ReentrantSharedMutexTest, TryLock_WhileOnlyReading_IsFalseAtOnce) {
  mutex_.lock_shared();
  EXPECT_FALSE(mutex_.try_lock());
  EXPECT_FALSE(mutex_.try_lock_for(hours(1)));
  EXPECT_FALSE(mutex_.try_lock_until(steady_clock::now() + hours(1)));
  EXPECT_EQ(mutex_.read_hold_count(), 1u);
  mutex_.unlock_shared();
}

TEST_P(ReentrantSharedMutexTest, TryLockFor_HeldByAWriter_IsFalseAfterItsTime) {
  mutex_.lock();
  OnOtherThread([&] {
    const auto began = steady_clock::now();
    EXPECT_FALSE(mutex_.try_lock_for(milliseconds(20)));
    EXPECT_GE(steady_clock::now() - began, milliseconds(20));
    EXPECT_FALSE(mutex_.try_lock_shared_for(milliseconds(20)));
    const auto both = steady_clock::now() - began;
    EXPECT_GE(both, milliseconds(40));
    EXPECT_LT(both, std::chrono::seconds(15));
    return 0;
  });
  mutex_.unlock();
}

TEST_P(ReentrantSharedMutexTest, TryLockFor_WriterGivesUp_ReadersBehindItGetIn) {
  mutex_.lock_shared();
  std::thread writer([&] { EXPECT_FALSE(mutex_.try_lock_for(milliseconds(30))); });
  writer.join();
  EXPECT_TRUE(OtherReads(mutex_));
  std::atomic<bool> gave_up = false;
  std::thread other_writer([&] {
    EXPECT_FALSE(mutex_.try_lock_for(milliseconds(100)));
    gave_up = true;
  });
  AwaitWaiterUnless(gave_up, mutex_);
  std::thread reader([&] { std::shared_lock lock(mutex_); });
  reader.join();
  other_writer.join();
  mutex_.unlock_shared();
}

TEST_P(ReentrantSharedMutexTest, TryUpgrade_Alone_Succeeds) {
  std::shared_lock read(mutex_);
  std::unique_lock write = TryUpgrade(std::move(read));
  ASSERT_TRUE(write.owns_lock());
  EXPECT_FALSE(read.owns_lock());
  EXPECT_EQ(mutex_.write_hold_count(), 1u);
  EXPECT_EQ(mutex_.read_hold_count(), 0u);
  EXPECT_FALSE(OtherReads(mutex_));
}

TEST_P(ReentrantSharedMutexTest, TryUpgrade_WithAnotherReader_FailsAndKeepsTheRead) {
  std::shared_lock read(mutex_);
  EXPECT_TRUE(OnOtherThread([&] {
    std::shared_lock other(mutex_);
    return !TryUpgrade(std::move(other)).owns_lock() && other.owns_lock() && mutex_.read_hold_count() == 1;
  }));
  EXPECT_TRUE(mutex_.try_upgrade());
  EXPECT_TRUE(mutex_.write_held_by_current_thread());
  mutex_.downgrade();
}

TEST_P(ReentrantSharedMutexTest, TryUpgrade_OneOfSeveralOwnReads_KeepsTheOthers) {
  mutex_.lock_shared();
  mutex_.lock_shared();
  ASSERT_TRUE(mutex_.try_upgrade());
  EXPECT_EQ(mutex_.read_hold_count(), 1u);
  mutex_.unlock();
  EXPECT_TRUE(OtherReads(mutex_));
  EXPECT_FALSE(OtherGetsIn(mutex_));
  mutex_.unlock_shared();
}

TEST_P(ReentrantSharedMutexTest, Downgrade_WithAReaderAndAWriterWaiting_ReaderEntersAndWriterDoesNot) {
  std::unique_lock write(mutex_);
  std::atomic<bool> written = false;
  std::thread reader([&] {
    std::shared_lock lock(mutex_);
    EXPECT_FALSE(written);
  });
  AwaitWaiters(mutex_, 1);
  std::thread writer([&] {
    std::lock_guard lock(mutex_);
    written = true;
  });
  AwaitWaiters(mutex_, 2);
  std::shared_lock read = Downgrade(std::move(write));
  EXPECT_FALSE(write.owns_lock());
  reader.join();  // It got in while this thread still reads.
  EXPECT_FALSE(written);
  EXPECT_EQ(mutex_.waiters(), 1u);
  read.unlock();
  writer.join();
}

TEST_P(ReentrantSharedMutexTest, Downgrade_OfAnInnerWrite_KeepsTheOuter) {
  mutex_.lock();
  mutex_.lock();
  mutex_.downgrade();
  EXPECT_FALSE(OtherReads(mutex_));
  mutex_.unlock();
  EXPECT_TRUE(OtherReads(mutex_));
  mutex_.unlock_shared();
}

TEST(ReentrantSharedMutexAdaptorsTest, StandardAdaptors_LockAndUnlock) {
  ReentrantSharedMutex a;
  ReentrantSharedMutex b;
  {
    std::lock_guard lock(a);
    EXPECT_EQ(a.write_hold_count(), 1u);
  }
  {
    std::unique_lock lock(a, milliseconds(1));
    EXPECT_TRUE(lock.owns_lock());
  }
  {
    std::shared_lock lock(a, milliseconds(1));
    EXPECT_EQ(a.read_hold_count(), 1u);
  }
  {
    std::scoped_lock lock(a, b);
    EXPECT_TRUE(a.write_held_by_current_thread() && b.write_held_by_current_thread());
  }
  {
    ReadGuard guard(a);
    EXPECT_EQ(a.read_hold_count(), 1u);
  }
  {
    WriteGuard guard(a);
    EXPECT_EQ(a.write_hold_count(), 1u);
  }
  EXPECT_FALSE(a.held_by_current_thread());
  EXPECT_TRUE(OtherGetsIn(a) && OtherGetsIn(b));
}

class ReentrantSharedMutexDeathTest : public ::testing::Test {
 protected:
  ReentrantSharedMutexDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ReentrantSharedMutex mutex_{{.name = "catalogue"}};
};

TEST_F(ReentrantSharedMutexDeathTest, Lock_WhileOnlyReading_AbortsWithName) {
  EXPECT_DEATH(
      {
        mutex_.lock_shared();
        mutex_.lock();
      },
      "ReentrantSharedMutex 'catalogue': lock\\(\\) by a thread that holds it for reading");
}

TEST_F(ReentrantSharedMutexDeathTest, Unlock_WhileOnlyReading_AbortsWithName) {
  EXPECT_DEATH(
      {
        mutex_.lock_shared();
        mutex_.unlock();
      },
      "'catalogue': unlock\\(\\)");
}

TEST_F(ReentrantSharedMutexDeathTest, UnlockShared_WhileOnlyWriting_AbortsWithName) {
  EXPECT_DEATH(
      {
        mutex_.lock();
        mutex_.unlock_shared();
      },
      "'catalogue': unlock_shared\\(\\)");
}

TEST_F(ReentrantSharedMutexDeathTest, UnlockShared_ByAnotherThread_AbortsWithName) {
  EXPECT_DEATH(
      {
        mutex_.lock_shared();
        std::thread([&] { mutex_.unlock_shared(); }).join();
      },
      "'catalogue': unlock_shared\\(\\)");
}

TEST_F(ReentrantSharedMutexDeathTest, DowngradeAndTryUpgrade_WithoutTheHold_AbortWithName) {
  EXPECT_DEATH(mutex_.downgrade(), "'catalogue': downgrade\\(\\)");
  EXPECT_DEATH((void)mutex_.try_upgrade(), "'catalogue': try_upgrade\\(\\)");
  EXPECT_DEATH((void)Downgrade(std::unique_lock<ReentrantSharedMutex>()), "Downgrade\\(\\) of a std::unique_lock");
}

TEST_F(ReentrantSharedMutexDeathTest, LockShared_PastTheLargestHoldCount_Aborts) {
  EXPECT_DEATH(
      {
        for (uint32_t i = 0; i <= locks_internal::LockCore::kMaxHolds; ++i) mutex_.lock_shared();
      },
      "ReentrantSharedMutex 'catalogue': held 16777216 times");
}

}  // namespace
}  // namespace stockade
