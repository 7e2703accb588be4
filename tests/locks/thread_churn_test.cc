// Threads come and go. Their records are handed on, with what other threads still know of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "lock_condition.h"
#include "stockade/locks/internal/thread_record.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using locks_internal::ThreadRecord;
using testing::Scaled;
using testing::Seed;

constexpr int kAtOnce = 6;

int64_t CountRecords() {
  int64_t count = 0;
  for (const ThreadRecord* record = ThreadRecord::First(); record != nullptr; record = record->next()) ++count;
  return count;
}

class ThreadChurnTest : public ::testing::TestWithParam<bool> {
 protected:
  // kAtOnce threads at a time, each a new one for each of its turns.
  template <typename Body>
  void RunThreads(int64_t turns, Body body) {
    ThreadRecord::Mine();
    const int64_t records = CountRecords();
    std::vector<std::thread> runners;
    for (int t = 0; t < kAtOnce; ++t) {
      runners.emplace_back([&, t] {
        for (int64_t turn = 0; turn < turns; ++turn) std::thread([&] { body(t, turn); }).join();
      });
    }
    for (std::thread& runner : runners) runner.join();
    // One for each that ran at the same time: the runners use no lock.
    EXPECT_LE(CountRecords(), records + kAtOnce);
  }

  ReentrantSharedMutex lock_{{.fifo = GetParam()}};
  int64_t plain_ = 0;  // Guarded by lock_.
};
INSTANTIATE_TEST_SUITE_P(Options, ThreadChurnTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

// A writer that waits for a published reader waits for a record: when the reader has left and its thread has ended, a
// new thread that gets the record may read some other lock there.
TEST_P(ThreadChurnTest, BiasedLock_ShortThreadsReadAndWrite_NothingIsLostAndRecordsAreReused) {
  ReentrantSharedMutex other;
  std::atomic<int64_t> writes = 0;
  testing::ReadOften(lock_);
  RunThreads(Scaled(400, 20'000), [&](int t, int64_t turn) {
    if ((turn + t) % 8 == 0) {
      std::lock_guard write(lock_);
      ++plain_;
      ++writes;
    } else if ((turn + t) % 8 == 1) {
      testing::ReadOften(lock_);
      testing::ReadOften(other);
    } else {
      for (int i = 0; i < 20; ++i) {
        std::shared_lock read(lock_);
        std::shared_lock read_other(other);
        EXPECT_GE(plain_, 0);
      }
    }
  });
  EXPECT_EQ(plain_, writes);
}

// The lock favours a thread that has ended, or one that has got its record since.
TEST_P(ThreadChurnTest, FavouredLock_ItsThreadEnds_TheNextOnesGetInAndNothingIsLost) {
  std::atomic<int64_t> writes = 0;
  RunThreads(Scaled(300, 10'000), [&](int t, int64_t turn) {
    const int64_t times = (turn + t) % 16 == 0 ? testing::kManyWrites : 5;
    for (int64_t i = 0; i < times; ++i) {
      std::lock_guard write(lock_);
      ++plain_;
    }
    writes += times;
    if (turn % 4 == 0) std::shared_lock(lock_, std::chrono::microseconds(50)).owns_lock();
  });
  EXPECT_EQ(plain_, writes);
}

TEST_P(ThreadChurnTest, FavouredThreadsOneAfterAnother_EachIsFavouredAndTheLockIsFreeAfterwards) {
  for (int64_t i = Scaled(200, 5'000); i > 0; --i) {
    std::thread([&] {
      testing::WriteOften(lock_);
      EXPECT_EQ(testing::WritesPublished(lock_), testing::LocksFavourThreads());
    }).join();
  }
  EXPECT_TRUE(std::unique_lock(lock_, std::try_to_lock).owns_lock());
}

}  // namespace
}  // namespace stockade
