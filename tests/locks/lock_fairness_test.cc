#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lock_test_util.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade {
namespace {

using testing::Await;
using testing::AwaitWaiters;
using testing::OtherReads;

constexpr int kMaxHandOffs = 100;

// With the FIFO option and without.
class LockFairnessTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Options, LockFairnessTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

// A reader leaves only while another is in, or when all others queue behind the writer: the lock is never free of
// readers by chance.
TEST_P(LockFairnessTest, ReadersInAnEndlessStream_AWriterEntersWithin100HandOffs) {
  ReentrantSharedMutex mutex({.fifo = GetParam()});
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

// Three threads in an endless stream of exclusive holds; the victim arrives behind them. Returns how often it saw the
// lock go from one of them to another before it came to the victim.
template <typename Lock, typename VictimLock>
int HandOffsBeforeTheVictim(Lock& mutex) {
  std::atomic<bool> done = false;
  int hand_offs = 0;  // Guarded by mutex, as is `last`.
  uint64_t last = 0;
  int hand_offs_at_end = -1;
  mutex.lock();
  std::vector<std::thread> stream;
  for (uint64_t t = 1; t <= 3; ++t) {
    stream.emplace_back([&, t] {
      while (!done) {
        std::lock_guard lock(mutex);
        if (std::exchange(last, t) != t) ++hand_offs;
      }
    });
    AwaitWaiters(mutex, t);
  }
  std::thread victim([&] {
    VictimLock lock(mutex);
    hand_offs_at_end = hand_offs;
    done = true;
  });
  AwaitWaiters(mutex, 4);
  mutex.unlock();
  victim.join();
  for (std::thread& thread : stream) thread.join();
  return hand_offs_at_end;
}

TEST_P(LockFairnessTest, WritersInAnEndlessStream_AReaderEntersWithin100HandOffs) {
  ReentrantSharedMutex mutex({.fifo = GetParam()});
  using Read = std::shared_lock<ReentrantSharedMutex>;
  EXPECT_LE((HandOffsBeforeTheVictim<ReentrantSharedMutex, Read>(mutex)), kMaxHandOffs);
}

TEST_P(LockFairnessTest, WritersInAnEndlessStream_AnotherWriterEntersWithin100HandOffs) {
  ReentrantSharedMutex mutex({.fifo = GetParam()});
  using Write = std::unique_lock<ReentrantSharedMutex>;
  EXPECT_LE((HandOffsBeforeTheVictim<ReentrantSharedMutex, Write>(mutex)), kMaxHandOffs);
}

TEST_P(LockFairnessTest, MutexInAnEndlessStream_AnotherThreadEntersWithin100HandOffs) {
  ReentrantMutex mutex({.fifo = GetParam()});
  using Held = std::unique_lock<ReentrantMutex>;
  EXPECT_LE((HandOffsBeforeTheVictim<ReentrantMutex, Held>(mutex)), kMaxHandOffs);
}

TEST_P(LockFairnessTest, AWriterWaitsForReaders_NobodyPassesIt) {
  ReentrantSharedMutex mutex({.fifo = GetParam()});
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

TEST(LockFifoTest, SharedMutex_WritersAndReadersArriveInTurn_TheyEnterInThatOrder) {
  ReentrantSharedMutex mutex({.fifo = true});
  std::vector<int> order;
  std::vector<std::thread> threads;
  mutex.lock();
  // Every second one reads, so no two readers are in at once.
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      if (t % 2 == 0) {
        std::lock_guard lock(mutex);
        order.push_back(t);
      } else {
        std::shared_lock lock(mutex);
        order.push_back(t);
      }
    });
    AwaitWaiters(mutex, t + 1);
  }
  mutex.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
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
