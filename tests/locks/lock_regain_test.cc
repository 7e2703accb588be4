// A thread that comes in between only interrupts a run: after another run of full length the lock is as it was.
#include <gtest/gtest.h>

#include <mutex>
#include <shared_mutex>

#include "companion.h"
#include "lock_condition.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade {
namespace {

using testing::LocksFavourThreads;
using testing::ReadsPublished;
using testing::WritesPublished;

class LockRegainTest : public ::testing::Test {
 protected:
  ReentrantSharedMutex mutex_;
};

TEST_F(LockRegainTest, Favour_LostToAReaderOnce_IsGainedAgain) {
  testing::Companion other;
  for (int i = 0; i < 3; ++i) {
    testing::WriteOften(mutex_);
    ASSERT_EQ(WritesPublished(mutex_), LocksFavourThreads()) << "after " << i << " readers";
    other.Do([&] { std::shared_lock read(mutex_); });
    EXPECT_FALSE(WritesPublished(mutex_));
  }
}

TEST_F(LockRegainTest, Favour_LostToAWriterOnce_IsGainedAgain) {
  testing::Companion other;
  for (int i = 0; i < 3; ++i) {
    testing::WriteOften(mutex_);
    ASSERT_EQ(WritesPublished(mutex_), LocksFavourThreads()) << "after " << i << " writers";
    other.Do([&] { std::lock_guard write(mutex_); });
    EXPECT_FALSE(WritesPublished(mutex_));
  }
}

TEST_F(LockRegainTest, Bias_LostToAWriterOnce_IsGainedAgain) {
  testing::Companion other;
  for (int i = 0; i < 3; ++i) {
    testing::ReadOften(mutex_);
    ASSERT_TRUE(ReadsPublished(mutex_)) << "after " << i << " writers";
    other.Do([&] { std::lock_guard write(mutex_); });
    EXPECT_FALSE(ReadsPublished(mutex_));
  }
}

}  // namespace
}  // namespace stockade
