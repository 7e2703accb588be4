// Upgrade and downgrade, in every condition that a lock can be in.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "conditioned_lock.h"
#include "lock_test_util.h"

namespace stockade {
namespace {

using testing::AwaitWaiters;
using testing::Condition;
using testing::ConditionedLock;
using testing::IsPublished;

class LockContractUpgradeTest : public ::testing::TestWithParam<testing::LockSetting> {
 protected:
  ConditionedLock lock_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Settings, LockContractUpgradeTest, ::testing::ValuesIn(testing::AllSettings()),
                         testing::NameOf);

TEST_P(LockContractUpgradeTest, TryUpgrade_Alone_KeepsOthersOutUntilTheRelease) {
  lock_->lock_shared();
  ASSERT_TRUE(lock_->try_upgrade());
  EXPECT_FALSE(IsPublished(*lock_));
  EXPECT_FALSE(lock_.OtherReads());
  lock_->unlock();
  EXPECT_TRUE(lock_.OtherGetsIn());
}

// The other reader is in by the word where the lock is fresh, and published where it is biased.
TEST_P(LockContractUpgradeTest, TryUpgrade_WithAnotherReader_FailsAndChangesNothing) {
  const bool biased = GetParam().condition == Condition::kBiased;
  EXPECT_EQ(lock_.companion().Ask([&] { return lock_->lock_shared(), IsPublished(*lock_); }), biased);
  lock_->lock_shared();
  const bool mine_published = IsPublished(*lock_);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(lock_->try_upgrade());
  EXPECT_EQ(IsPublished(*lock_), mine_published);
  EXPECT_EQ(lock_->read_hold_count(), 1u);
  EXPECT_EQ(testing::OnOtherThread([&] { return testing::ReadsPublished(*lock_); }), biased);
  EXPECT_FALSE(testing::OtherGetsIn(*lock_));
  lock_.companion().Do([&] { lock_->unlock_shared(); });
  EXPECT_TRUE(lock_->try_upgrade());
  EXPECT_FALSE(lock_.OtherReads());
  lock_->unlock();
  EXPECT_TRUE(lock_.OtherGetsIn());
}

// The readers differ in how they are in: each fails against the other.
TEST_P(LockContractUpgradeTest, TryUpgrade_ByEachOfTwoReaders_FailsForBoth) {
  lock_.companion().Do([&] { lock_->lock_shared(); });
  lock_->lock_shared();
  EXPECT_FALSE(lock_.companion().Ask([&] { return lock_->try_upgrade(); }));
  EXPECT_FALSE(lock_->try_upgrade());
  lock_->unlock_shared();
  EXPECT_TRUE(lock_.companion().Ask([&] { return lock_->try_upgrade(); }));
  EXPECT_FALSE(lock_->try_lock_shared());
  lock_.companion().Do([&] { lock_->unlock(); });
  EXPECT_TRUE(lock_->try_lock_shared());
  lock_->unlock_shared();
}

TEST_P(LockContractUpgradeTest, TryUpgrade_WhileAWriterWaits_PassesIt) {
  std::atomic<bool> written = false;
  lock_->lock_shared();
  std::thread writer([&] {
    std::lock_guard held(*lock_);
    written = true;
  });
  AwaitWaiters(*lock_, 1);
  ASSERT_TRUE(lock_->try_upgrade());
  EXPECT_FALSE(written);
  lock_->downgrade();
  EXPECT_FALSE(lock_.OtherGetsIn());
  ASSERT_TRUE(lock_->try_upgrade());
  EXPECT_FALSE(written);
  lock_->unlock();
  writer.join();
  EXPECT_TRUE(lock_.OtherGetsIn());
}

TEST_P(LockContractUpgradeTest, TryUpgrade_WithAnotherReaderWhileAWriterWaits_FailsAndTheWriterGetsInLater) {
  std::atomic<bool> written = false;
  lock_.companion().Do([&] { lock_->lock_shared(); });
  lock_->lock_shared();
  std::thread writer([&] {
    std::lock_guard held(*lock_);
    written = true;
  });
  AwaitWaiters(*lock_, 1);
  EXPECT_FALSE(lock_->try_upgrade());
  lock_->unlock_shared();
  EXPECT_FALSE(written);
  EXPECT_FALSE(testing::OtherGetsIn(*lock_));
  lock_.companion().Do([&] { lock_->unlock_shared(); });
  writer.join();
  EXPECT_TRUE(lock_.OtherReads());
}

TEST_P(LockContractUpgradeTest, TryUpgrade_OneOfSeveralReads_TheOthersOutliveTheWrite) {
  lock_->lock_shared();
  lock_->lock_shared();
  ASSERT_TRUE(lock_->try_upgrade());
  EXPECT_EQ(lock_->read_hold_count(), 1u);
  EXPECT_EQ(lock_->write_hold_count(), 1u);
  lock_->unlock();
  EXPECT_TRUE(lock_.OtherReads());
  EXPECT_FALSE(lock_.OtherGetsIn());
  lock_->unlock_shared();
  EXPECT_TRUE(lock_.OtherGetsIn());
}

TEST_P(LockContractUpgradeTest, Downgrade_Alone_LetsReadersInAndKeepsWritersOut) {
  lock_->lock();
  lock_->downgrade();
  EXPECT_FALSE(IsPublished(*lock_));
  EXPECT_TRUE(lock_.OtherReads());
  EXPECT_FALSE(lock_.OtherGetsIn());
  lock_->unlock_shared();
  EXPECT_TRUE(lock_.OtherGetsIn());
}

TEST_P(LockContractUpgradeTest, Downgrade_WithAReaderAndAWriterWaiting_ReaderEntersAndWriterDoesNot) {
  lock_->lock();
  std::atomic<bool> written = false;
  std::thread reader([&] {
    std::shared_lock held(*lock_);
    EXPECT_FALSE(written);
  });
  AwaitWaiters(*lock_, 1);
  std::thread writer([&] {
    std::lock_guard held(*lock_);
    written = true;
  });
  AwaitWaiters(*lock_, 2);
  lock_->downgrade();
  reader.join();  // It got in while this thread still reads.
  EXPECT_FALSE(written);
  lock_->unlock_shared();
  writer.join();
}

TEST_P(LockContractUpgradeTest, Downgrade_WithAWriterWaiting_TheWriterEntersAfterTheRead) {
  lock_->lock();
  std::atomic<bool> written = false;
  std::thread writer([&] {
    std::lock_guard held(*lock_);
    written = true;
  });
  AwaitWaiters(*lock_, 1);
  lock_->downgrade();
  EXPECT_FALSE(lock_.OtherGetsIn());
  EXPECT_FALSE(written);
  lock_->unlock_shared();
  writer.join();
}

}  // namespace
}  // namespace stockade
