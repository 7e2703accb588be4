#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "hand_offs.h"
#include "lock_condition.h"
#include "lock_test_util.h"
#include "stockade/base/cpu_relax.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade {
namespace {

using testing::Await;
using testing::AwaitWaiters;
using testing::HandOffsBeforeTheVictim;
using testing::kMaxHandOffs;
using testing::OtherReads;

// With the FIFO option and without; and a lock that has seen nothing yet, or so many reads, or writes of the thread
// that makes it, that these need no step of its word any more.
struct FairnessSetting {
  bool fifo;
  bool used;
};
class LockFairnessTest : public ::testing::TestWithParam<FairnessSetting> {
 protected:
  template <typename Lock>
  void UseForWrites(Lock& lock) const {
    if (GetParam().used) testing::WriteOften(lock);
  }
  void UseForReads(ReentrantSharedMutex& lock) const {
    if (GetParam().used) testing::ReadOften(lock);
  }
};
INSTANTIATE_TEST_SUITE_P(Options, LockFairnessTest,
                         ::testing::Values(FairnessSetting{false, false}, FairnessSetting{true, false},
                                           FairnessSetting{false, true}, FairnessSetting{true, true}),
                         [](const auto& info) {
                           return std::string(info.param.fifo ? "Fifo" : "Default") + (info.param.used ? "Used" : "");
                         });

// A reader leaves only while another is in, or when all others queue behind the writer: the lock is never free of
// readers by chance.
TEST_P(LockFairnessTest, ReadersInAnEndlessStream_AWriterEntersWithin100HandOffs) {
  ReentrantSharedMutex mutex({.fifo = GetParam().fifo});
  UseForReads(mutex);
  constexpr int kReaders = 4;
  std::atomic<int> inside = 0;
  std::atomic<int> entries = 0;
  std::atomic<bool> written = false;
  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&] {
      while (!written) {
        mutex.lock_shared();
        ++inside;
        ++entries;
        Await([&] {
          int seen = inside;
          if (seen >= 2) return inside.compare_exchange_strong(seen, seen - 1);
          if (mutex.waiters() < kReaders && !written) return false;
          --inside;
          return true;
        });
        mutex.unlock_shared();
      }
    });
  }
  Await([&] { return entries > 2 * kReaders; });
  int entries_at_end = 0;
  std::thread writer([&] {
    std::lock_guard lock(mutex);
    entries_at_end = entries;
    written = true;
  });
  Await([&] { return mutex.waiters() > 0 || written; });
  const int entries_at_begin = entries;
  writer.join();
  for (std::thread& reader : readers) reader.join();
  EXPECT_LE(entries_at_end - entries_at_begin, kMaxHandOffs);
}

TEST_P(LockFairnessTest, WritersInAnEndlessStream_AReaderEntersWithin100HandOffs) {
  ReentrantSharedMutex mutex({.fifo = GetParam().fifo});
  UseForWrites(mutex);
  using Read = std::shared_lock<ReentrantSharedMutex>;
  EXPECT_LE((HandOffsBeforeTheVictim<ReentrantSharedMutex, Read>(mutex)), kMaxHandOffs);
}

TEST_P(LockFairnessTest, WritersInAnEndlessStream_AnotherWriterEntersWithin100HandOffs) {
  ReentrantSharedMutex mutex({.fifo = GetParam().fifo});
  UseForWrites(mutex);
  using Write = std::unique_lock<ReentrantSharedMutex>;
  EXPECT_LE((HandOffsBeforeTheVictim<ReentrantSharedMutex, Write>(mutex)), kMaxHandOffs);
}

TEST_P(LockFairnessTest, MutexInAnEndlessStream_AnotherThreadEntersWithin100HandOffs) {
  ReentrantMutex mutex({.fifo = GetParam().fifo});
  UseForWrites(mutex);
  using Held = std::unique_lock<ReentrantMutex>;
  EXPECT_LE((HandOffsBeforeTheVictim<ReentrantMutex, Held>(mutex)), kMaxHandOffs);
}

// How often the calling thread has gone to sleep.
int64_t Sleeps() {
  rusage usage{};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

// How often a reader that waits for the mutex sleeps before it enters, while this thread acquires it again and again.
// This thread holds it nearly always, so a check at a random moment finds it held.
int64_t SleepsOfTheVictim(ReentrantSharedMutex& mutex) {
  std::atomic<bool> done = false;
  int64_t sleeps = 0;
  mutex.lock();
  std::thread victim([&] {
    const int64_t before = Sleeps();
    std::shared_lock read(mutex);
    sleeps = Sleeps() - before;
    done = true;
  });
  AwaitWaiters(mutex, 1);
  while (!done) {
    mutex.unlock();
    mutex.lock();
    for (int pause = 0; pause < 1'000; ++pause) base_internal::CpuRelax();
  }
  mutex.unlock();
  victim.join();
  return sleeps;
}

// It alone: it never has to wait, so only what it owes to the other stops it. It may pass while the other wakes up,
// which is once, but as often as it can: how long that takes is the scheduler's affair, so holds are no measure. The
// bound leaves room for sleeps that are not for the lock itself.
TEST_P(LockFairnessTest, OneThreadInAnEndlessStream_AnotherEntersAfterAFewWakeUps) {
  constexpr int64_t kFewSleeps = 10;
  for (int round = 0; round < 50; ++round) {
    ReentrantSharedMutex mutex({.fifo = GetParam().fifo});
    UseForWrites(mutex);
    ASSERT_LE(SleepsOfTheVictim(mutex), kFewSleeps);
  }
}

TEST_P(LockFairnessTest, AWriterWaitsForReaders_NobodyPassesIt) {
  ReentrantSharedMutex mutex({.fifo = GetParam().fifo});
  UseForReads(mutex);
  mutex.lock_shared();
  std::thread writer([&] { std::lock_guard lock(mutex); });
  AwaitWaiters(mutex, 1);
  Await([&] { return !OtherReads(mutex); });
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(OtherReads(mutex));
  mutex.unlock_shared();
  writer.join();
  EXPECT_TRUE(OtherReads(mutex));
}

TEST(LockFifoTest, Mutex_ThreadsArriveInTurn_TheyEnterInThatOrder) {
  ReentrantMutex mutex({.fifo = true});
  std::vector<int> order;
  std::vector<std::thread> threads;
  mutex.lock();
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::lock_guard lock(mutex);
      order.push_back(t);
    });
    AwaitWaiters(mutex, t + 1);
  }
  mutex.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Writers and readers by turns, one after the other, wait behind the current holder. Every second one reads, so no two
// readers hold the lock at once.
class ArrivingInTurn {
 public:
  ArrivingInTurn(ReentrantSharedMutex& mutex, int count) {
    for (int t = 0; t < count; ++t) {
      threads_.emplace_back([&mutex, t, this] {
        if (t % 2 == 0) {
          std::lock_guard lock(mutex);
          order_.push_back(t);
        } else {
          std::shared_lock lock(mutex);
          order_.push_back(t);
        }
      });
      AwaitWaiters(mutex, t + 1);
    }
  }

  // To be called once the first holder has released. The order in which they entered.
  const std::vector<int>& Order() {
    for (std::thread& thread : threads_) thread.join();
    return order_;
  }

 private:
  std::vector<int> order_;  // Guarded by the mutex.
  std::vector<std::thread> threads_;
};

TEST(LockFifoTest, SharedMutex_WritersAndReadersArriveInTurn_TheyEnterInThatOrder) {
  ReentrantSharedMutex mutex({.fifo = true});
  mutex.lock();
  ArrivingInTurn threads(mutex, 8);
  mutex.unlock();
  EXPECT_EQ(threads.Order(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Of readers that have published themselves and those that come once somebody waits, none passes a writer.
TEST(LockFifoTest, SharedMutex_BiasedWithAReaderIn_LaterOnesEnterInTheOrderOfArrival) {
  ReentrantSharedMutex mutex({.fifo = true});
  testing::ReadOften(mutex);
  mutex.lock_shared();
  ASSERT_TRUE(testing::IsPublished(mutex));
  ArrivingInTurn threads(mutex, 6);
  mutex.unlock_shared();
  EXPECT_EQ(threads.Order(), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(LockFifoTest, SharedMutex_ReadersNextToEachOtherInTheQueue_EnterTogether) {
  ReentrantSharedMutex mutex({.fifo = true});
  std::atomic<int> inside = 0;
  std::vector<std::thread> readers;
  mutex.lock();
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      std::shared_lock lock(mutex);
      ++inside;
      Await([&] { return inside == 3; });
    });
    AwaitWaiters(mutex, t + 1);
  }
  mutex.unlock();
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace stockade
