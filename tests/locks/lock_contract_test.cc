// The contract of a read-write lock, in every condition that it can be in.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

#include "conditioned_lock.h"
#include "lock_test_util.h"
#include "support/scale.h"

namespace stockade {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AwaitWaiters;
using testing::ConditionedLock;
using testing::kSanitized;

class LockContractTest : public ::testing::TestWithParam<testing::LockSetting> {
 protected:
  ConditionedLock lock_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Settings, LockContractTest, ::testing::ValuesIn(testing::AllSettings()), testing::NameOf);

// The calls of a thread on the lock, one letter per call, and its holds afterwards.
struct Sequence {
  std::string calls;
  uint32_t reads = 0;
  uint32_t writes = 0;

  Sequence With(char call, int more_reads, int more_writes) const {
    return {calls + call, reads + static_cast<uint32_t>(more_reads), writes + static_cast<uint32_t>(more_writes)};
  }
};

// Visits each sequence of at most `length` calls that a thread may make while no other thread is in.
void ForEachSequence(const Sequence& done, size_t length, const std::function<void(const Sequence&)>& visit) {
  visit(done);
  if (done.calls.size() == length) return;
  const auto next = [&](char call, int reads, int writes) {
    ForEachSequence(done.With(call, reads, writes), length, visit);
  };
  if (done.reads < 3) next('R', 1, 0);
  if (done.writes < 3 && (done.writes > 0 || done.reads == 0)) next('W', 0, 1);
  if (done.reads > 0) next('r', -1, 0);
  if (done.writes > 0) next('w', 0, -1);
  if (done.writes > 0) next('d', 1, -1);
  if (done.reads > 0) next('u', -1, 1);
}

bool Perform(ReentrantSharedMutex& lock, char call, bool tries) {
  switch (call) {
    case 'R': return tries ? lock.try_lock_shared() : (lock.lock_shared(), true);
    case 'W': return tries ? lock.try_lock() : (lock.lock(), true);
    case 'r': lock.unlock_shared(); return true;
    case 'w': lock.unlock(); return true;
    case 'd': lock.downgrade(); return true;
    default: return lock.try_upgrade();
  }
}

TEST_P(LockContractTest, EverySequenceOfCalls_HoldCountsAndWhoElseGetsIn_AreAsTheHoldsSay) {
  int64_t number = 0;
  ForEachSequence({}, 6, [&](const Sequence& sequence) {
    if (++number % (kSanitized ? 29 : 1) != 0) return;
    SCOPED_TRACE(sequence.calls);
    lock_.Renew();
    for (const char call : sequence.calls) ASSERT_TRUE(Perform(*lock_, call, number % 2 == 0)) << call;
    EXPECT_EQ(lock_->read_hold_count(), sequence.reads);
    EXPECT_EQ(lock_->write_hold_count(), sequence.writes);
    EXPECT_EQ(lock_->held_by_current_thread(), sequence.reads + sequence.writes > 0);
    EXPECT_EQ(lock_->write_held_by_current_thread(), sequence.writes > 0);
    EXPECT_EQ(lock_.OtherReads(), sequence.writes == 0);
    EXPECT_EQ(lock_.OtherGetsIn(), sequence.writes + sequence.reads == 0);
    for (uint32_t i = 0; i < sequence.writes; ++i) lock_->unlock();
    for (uint32_t i = 0; i < sequence.reads; ++i) lock_->unlock_shared();
    EXPECT_FALSE(lock_->held_by_current_thread());
    EXPECT_TRUE(lock_.OtherGetsIn() && lock_.OtherReads());
    EXPECT_EQ(lock_->waiters(), 0u);
  });
  EXPECT_GT(number, 1000);
}

TEST_P(LockContractTest, Free_EveryWayIn_IsOpenToTheTesterAndToAnother) {
  const auto all_ways = [&] {
    const auto write = [&](bool is_in) {
      if (is_in) lock_->unlock();
      return is_in;
    };
    const auto read = [&](bool is_in) {
      if (is_in) lock_->unlock_shared();
      return is_in;
    };
    return write(lock_->try_lock()) && read(lock_->try_lock_shared()) && write(lock_->try_lock_for(milliseconds(0))) &&
           read(lock_->try_lock_shared_for(milliseconds(0))) && write(lock_->try_lock_until(steady_clock::now())) &&
           read(lock_->try_lock_shared_until(steady_clock::time_point::min())) &&
           write(lock_->try_lock_for(milliseconds(-1))) && write((lock_->lock(), true)) &&
           read((lock_->lock_shared(), true));
  };
  EXPECT_TRUE(all_ways());
  lock_.Renew();
  EXPECT_TRUE(lock_.companion().Ask(all_ways));
  EXPECT_TRUE(all_ways());
}

// Each way in is the first that is tried in this condition.
TEST_P(LockContractTest, Free_TheFirstCallOfAnotherThread_GetsIn) {
  EXPECT_TRUE(lock_.OtherGetsIn());
  lock_.Renew();
  EXPECT_TRUE(lock_.OtherReads());
  lock_.Renew();
  EXPECT_TRUE(lock_.companion().Ask([&] { return std::unique_lock(*lock_, milliseconds(0)).owns_lock(); }));
  lock_.Renew();
  EXPECT_TRUE(lock_.companion().Ask([&] { return std::shared_lock(*lock_, milliseconds(0)).owns_lock(); }));
  lock_.Renew();
  lock_.companion().Do([&] { std::lock_guard held(*lock_); });
  lock_.Renew();
  lock_.companion().Do([&] { std::shared_lock held(*lock_); });
  EXPECT_TRUE(lock_.OtherGetsIn());
}

TEST_P(LockContractTest, LockShared_NestedWhileAWriterWaits_Succeeds) {
  lock_->lock_shared();
  std::thread writer([&] { std::lock_guard held(*lock_); });
  AwaitWaiters(*lock_, 1);
  lock_->lock_shared();
  EXPECT_TRUE(lock_->try_lock_shared());
  EXPECT_TRUE(lock_->try_lock_shared_for(milliseconds(0)));
  EXPECT_FALSE(lock_->try_lock());
  for (int i = 0; i < 3; ++i) lock_->unlock_shared();
  EXPECT_FALSE(lock_.OtherGetsIn());
  lock_->unlock_shared();
  writer.join();
}

TEST_P(LockContractTest, LockAndLockShared_UnderOnesOwnWriteWhileOthersWait_Succeed) {
  lock_->lock();
  std::thread writer([&] { std::lock_guard held(*lock_); });
  std::thread reader([&] { std::shared_lock held(*lock_); });
  AwaitWaiters(*lock_, 2);
  lock_->lock();
  lock_->lock_shared();
  EXPECT_TRUE(lock_->try_lock() && lock_->try_lock_shared());
  EXPECT_EQ(lock_->waiters(), 2u);
  lock_->unlock_shared();
  lock_->unlock_shared();
  for (int i = 0; i < 3; ++i) lock_->unlock();
  writer.join();
  reader.join();
}

}  // namespace
}  // namespace stockade
