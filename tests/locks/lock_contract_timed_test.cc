// Threads that find a lock held and give up, in every condition that the lock can be in.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "conditioned_lock.h"
#include "lock_test_util.h"

namespace stockade {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AwaitWaiters;
using testing::AwaitWaiterUnless;
using testing::Condition;
using testing::ConditionedLock;
using testing::IsPublished;
using Where = testing::OtherHolds::Where;

constexpr milliseconds kSpan{5};

class LockContractTimedTest : public ::testing::TestWithParam<testing::LockSetting> {
 protected:
  // What another thread's timed try gives. The upper bound is loose, since the machine may be busy.
  template <typename Try>
  bool Waits(Try attempt) {
    return lock_.companion().Ask([&] {
      const auto began = steady_clock::now();
      const bool is_in = attempt();
      const auto took = steady_clock::now() - began;
      if (!is_in) {
        EXPECT_GE(took, kSpan);
        EXPECT_LT(took, 900 * kSpan);  // Still catches a wait in wrong units, which is 1000 times as long.
      }
      return is_in;
    });
  }
  bool WriterWaits() {
    return Waits([&] { return std::unique_lock(*lock_, kSpan).owns_lock(); });
  }
  bool ReaderWaits() {
    return Waits([&] { return std::shared_lock(*lock_, kSpan).owns_lock(); });
  }
  // Whether the tester's first hold of this kind is a published one.
  bool expect_published_read() const {
    return GetParam().condition == Condition::kBiased && GetParam().others != Where::kEverywhere;
  }
  bool expect_published_write() const {
    return GetParam().condition == Condition::kFavoursTester && GetParam().others == Where::kNone &&
           testing::LocksFavourThreads();
  }

  ConditionedLock lock_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Settings, LockContractTimedTest, ::testing::ValuesIn(testing::AllSettings()), testing::NameOf);

TEST_P(LockContractTimedTest, Written_NobodyElseGetsInAndAllGiveUpNoEarlier) {
  std::unique_lock write(*lock_);
  EXPECT_EQ(IsPublished(*lock_), expect_published_write());
  EXPECT_FALSE(lock_.OtherGetsIn());
  EXPECT_FALSE(lock_.OtherReads());
  EXPECT_FALSE(WriterWaits());
  EXPECT_FALSE(ReaderWaits());
  EXPECT_EQ(lock_->waiters(), 0u);
  EXPECT_EQ(lock_->write_hold_count(), 1u);
  write.unlock();
  EXPECT_TRUE(WriterWaits());
  EXPECT_TRUE(ReaderWaits());
}

// As the writer was in before them, they leave it the favour.
TEST_P(LockContractTimedTest, WrittenByTheFavoured_OthersGiveUp_ItIsStillFavoured) {
  std::unique_lock write(*lock_);
  EXPECT_FALSE(lock_.OtherGetsIn());
  EXPECT_FALSE(WriterWaits());
  EXPECT_FALSE(ReaderWaits());
  write.unlock();
  EXPECT_EQ(testing::WritesPublished(*lock_), expect_published_write());
  EXPECT_TRUE(lock_.OtherGetsIn());
  EXPECT_FALSE(testing::WritesPublished(*lock_));
}

TEST_P(LockContractTimedTest, Read_ReadersGetInAndWritersGiveUpNoEarlier) {
  std::shared_lock read(*lock_);
  EXPECT_EQ(IsPublished(*lock_), expect_published_read());
  EXPECT_FALSE(lock_.OtherGetsIn());
  EXPECT_TRUE(lock_.OtherReads());
  EXPECT_FALSE(WriterWaits());
  EXPECT_TRUE(ReaderWaits());
  EXPECT_TRUE(lock_.OtherReads());
  EXPECT_EQ(lock_->read_hold_count(), 1u);
  read.unlock();
  EXPECT_TRUE(WriterWaits());
  EXPECT_TRUE(ReaderWaits());
}

// Readers that were kept from publishing while the writer waited may do so again.
TEST_P(LockContractTimedTest, ReadByOneWhoPublished_AWriterGivesUp_ReadersStillPublish) {
  std::shared_lock read(*lock_);
  EXPECT_FALSE(WriterWaits());
  const bool published = lock_.companion().Ask([&] { return testing::ReadsPublished(*lock_); });
  EXPECT_EQ(published, GetParam().condition == Condition::kBiased);
  read.unlock();
  EXPECT_EQ(testing::ReadsPublished(*lock_), expect_published_read());
  EXPECT_TRUE(lock_.OtherGetsIn());
}

TEST_P(LockContractTimedTest, HeldByAnother_EveryWayOfTheTester_IsRefused) {
  lock_.companion().Do([&] { lock_->lock(); });
  EXPECT_FALSE(lock_->try_lock());
  EXPECT_FALSE(lock_->try_lock_shared());
  const auto began = steady_clock::now();
  EXPECT_FALSE(lock_->try_lock_for(kSpan));
  EXPECT_FALSE(lock_->try_lock_shared_for(kSpan));
  EXPECT_GE(steady_clock::now() - began, 2 * kSpan);
  lock_.companion().Do([&] { lock_->downgrade(); });
  EXPECT_FALSE(lock_->try_lock());
  EXPECT_FALSE(lock_->try_lock_for(kSpan));
  EXPECT_TRUE(lock_->try_lock_shared_for(kSpan));
  lock_->unlock_shared();
  lock_.companion().Do([&] { lock_->unlock_shared(); });
  EXPECT_TRUE(lock_->try_lock());
  lock_->unlock();
}

TEST_P(LockContractTimedTest, Written_OneGivesUpBeforeAnother_TheOtherGetsIn) {
  std::unique_lock write(*lock_);
  std::atomic<bool> gave_up = false;
  std::thread first([&] {
    EXPECT_FALSE(lock_->try_lock_for(10 * kSpan));
    gave_up = true;
  });
  AwaitWaiterUnless(gave_up, *lock_);
  std::thread writer([&] { std::lock_guard held(*lock_); });
  std::thread reader([&] { std::shared_lock held(*lock_); });
  first.join();
  AwaitWaiters(*lock_, 2);
  write.unlock();
  writer.join();
  reader.join();
  EXPECT_EQ(lock_->waiters(), 0u);
}

// The writer that gives up was the only reason for the readers behind it to wait.
TEST_P(LockContractTimedTest, Read_AWriterGivesUp_TheReadersBehindItGetIn) {
  std::shared_lock read(*lock_);
  std::atomic<bool> gave_up = false;
  std::thread writer([&] {
    EXPECT_FALSE(lock_->try_lock_for(10 * kSpan));
    gave_up = true;
  });
  AwaitWaiterUnless(gave_up, *lock_);
  std::thread reader([&] { std::shared_lock held(*lock_); });
  reader.join();
  writer.join();
  EXPECT_EQ(lock_->waiters(), 0u);
}

TEST_P(LockContractTimedTest, Held_ReleasedWhileOneWaits_ItGetsIn) {
  lock_->lock();
  std::thread writer([&] { EXPECT_TRUE(std::unique_lock(*lock_, std::chrono::hours(1)).owns_lock()); });
  AwaitWaiters(*lock_, 1);
  lock_->unlock();
  writer.join();
  lock_.Renew();
  lock_->lock_shared();
  writer = std::thread([&] { EXPECT_TRUE(std::unique_lock(*lock_, std::chrono::hours(1)).owns_lock()); });
  AwaitWaiters(*lock_, 1);
  lock_->unlock_shared();
  writer.join();
  EXPECT_TRUE(lock_.OtherGetsIn());
}

}  // namespace
}  // namespace stockade
