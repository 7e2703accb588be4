// Two locks that have the same entry in each thread's table: a waiter for one of them sleeps on a word that serves
// both.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "lock_condition.h"
#include "lock_test_util.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "support/scale.h"

namespace stockade {
namespace {

using std::chrono::microseconds;
using testing::Scaled;

class SharedEntryTest : public ::testing::TestWithParam<bool> {
 protected:
  struct Guarded {
    explicit Guarded(bool fifo) : lock({.fifo = fifo}) {}

    ReentrantSharedMutex lock;
    int64_t first = 0;
    int64_t second = 0;
    std::atomic<int64_t> reads{0};
  };

  SharedEntryTest() : outer_(all_.emplace_back(GetParam())), inner_(FindSecond()) {
    EXPECT_EQ(testing::PlaceOf(&outer_.lock), testing::PlaceOf(&inner_.lock));
  }

  Guarded& FindSecond() {
    for (;;) {
      Guarded& next = all_.emplace_back(GetParam());
      if (testing::PlaceOf(&next.lock) == testing::PlaceOf(&all_.front().lock)) return next;
    }
  }

  static void Look(Guarded& guarded) {
    EXPECT_EQ(guarded.first, guarded.second);
    guarded.reads.fetch_add(1, std::memory_order_relaxed);
  }
  // Reads the inner one alone, then under the outer one: the entry is the inner one's, then the outer one's.
  void ReadBoth() {
    {
      std::shared_lock inner(inner_.lock);
      published_inner_ += testing::IsPublished(inner_.lock) ? 1 : 0;
      Look(inner_);
    }
    std::shared_lock outer(outer_.lock);
    published_outer_ += testing::IsPublished(outer_.lock) ? 1 : 0;
    Look(outer_);
    std::shared_lock inner(inner_.lock);
    Look(inner_);
  }
  static void Write(Guarded& guarded) {
    std::lock_guard write(guarded.lock);
    ++guarded.first;
    ++guarded.second;
  }

  std::deque<Guarded> all_;
  Guarded& outer_;
  Guarded& inner_;
  std::atomic<int64_t> published_inner_{0};
  std::atomic<int64_t> published_outer_{0};
};
INSTANTIATE_TEST_SUITE_P(Options, SharedEntryTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

// Were a writer to sleep on a mark that was set for the other lock's hold, or to which the reader has answered, it and
// the reader would wait for each other.
TEST_P(SharedEntryTest, ReadersOfBothAndWritersOfEach_NobodyWaitsForEver) {
  const int64_t writes = Scaled(150, 10'000);
  std::atomic<int> writers_left = 2;
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (writers_left > 0) ReadBoth();
    });
  }
  const auto write = [&](Guarded& guarded) {
    for (int64_t i = 0; i < writes; ++i) {
      // Until it may be biased again.
      const int64_t enough = guarded.reads + testing::kManyReads + i % 64;
      while (guarded.reads < enough) std::this_thread::yield();
      if (i % 4 == 0) {
        std::unique_lock timed(guarded.lock, microseconds(i % 30));
        if (timed.owns_lock()) Write(guarded);
      }
      Write(guarded);
    }
    --writers_left;
  };
  std::thread outer_writer([&] { write(outer_); });
  write(inner_);
  outer_writer.join();
  for (std::thread& reader : readers) reader.join();
  EXPECT_GE(outer_.first, writes);
  EXPECT_GE(inner_.first, writes);
  EXPECT_GT(published_outer_, 0);
  EXPECT_GT(published_inner_, 0);
}

// One thread publishes its hold of one lock while others wait for the other lock, and for this one.
TEST_P(SharedEntryTest, OneHoldsTheOuterByPublishing_WaitersForBoth_GetInInTurn) {
  for (int64_t round = Scaled(30, 1'000); round > 0; --round) {
    testing::ReadOften(outer_.lock);
    testing::ReadOften(inner_.lock);
    outer_.lock.lock_shared();
    ASSERT_TRUE(testing::IsPublished(outer_.lock));
    std::thread outer_writer([&] { Write(outer_); });
    testing::AwaitWaiters(outer_.lock, 1);
    // This thread's entry is taken, so it is in by the inner one's word.
    inner_.lock.lock_shared();
    ASSERT_FALSE(testing::IsPublished(inner_.lock));
    std::thread inner_writer([&] { Write(inner_); });
    testing::AwaitWaiters(inner_.lock, 1);
    if (round % 2 == 0) {
      inner_.lock.unlock_shared();
      inner_writer.join();
      outer_.lock.unlock_shared();
    } else {
      outer_.lock.unlock_shared();
      outer_writer.join();
      inner_.lock.unlock_shared();
    }
    if (outer_writer.joinable()) outer_writer.join();
    if (inner_writer.joinable()) inner_writer.join();
  }
  EXPECT_EQ(outer_.lock.waiters() + inner_.lock.waiters(), 0u);
}

// The favoured thread of one lock reads the other, which has the same entry.
TEST_P(SharedEntryTest, OneFavouredForBoth_OthersComeForEach_NobodyWaitsForEver) {
  const int64_t rounds = Scaled(40, 1'000);
  std::atomic<bool> done = false;
  std::vector<std::thread> others;
  for (Guarded* const guarded : {&outer_, &inner_}) {
    others.emplace_back([&, guarded] {
      while (!done) {
        const int64_t seen = guarded->reads;
        Write(*guarded);
        while (!done && guarded->reads == seen) std::this_thread::yield();
      }
    });
  }
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < testing::kManyWrites; ++i) Write(outer_);
    for (int i = 0; i < testing::kManyWrites; ++i) {
      std::lock_guard outer(outer_.lock);
      Write(inner_);
    }
    ReadBoth();
  }
  done = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(outer_.first, outer_.second);
  EXPECT_EQ(inner_.first, inner_.second);
}

}  // namespace
}  // namespace stockade
