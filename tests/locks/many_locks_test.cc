// Thousands of locks at once, so that many share an entry of each thread's table, each used by several threads.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "lock_condition.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::Scaled;
using testing::Seed;

constexpr int kThreads = 4;

struct Guarded {
  ReentrantSharedMutex lock;
  int64_t first = 0;
  int64_t second = 0;
};

class ManyLocksTest : public ::testing::Test {
 protected:
  void Write(Guarded& guarded) {
    std::lock_guard write(guarded.lock);
    ++guarded.first;
    ++guarded.second;
  }
  bool IsWhole(Guarded& guarded) {
    std::shared_lock read(guarded.lock);
    return guarded.first == guarded.second;
  }

  // One step of a thread among `all`, of which it may hold some at the same time, in ascending order. How many writes.
  int64_t Step(std::deque<Guarded>& all, std::minstd_rand& random) {
    const size_t at = random() % all.size();
    switch (random() % 8) {
      case 0: return Write(all[at]), 1;
      case 1: {  // Reads across a range, so entries collide and the later ones go into the overflow; one write inside.
        std::vector<std::shared_lock<ReentrantSharedMutex>> held;
        for (size_t next = at; next < all.size() && held.size() < 24; next += 1 + random() % 3) {
          held.emplace_back(all[next].lock);
          EXPECT_EQ(all[next].first, all[next].second);
        }
        for (const auto& read : held) EXPECT_EQ(read.mutex()->read_hold_count(), 1u);
        return 0;
      }
      case 2: {
        std::unique_lock write(all[at].lock, std::chrono::microseconds(20));
        if (!write.owns_lock()) return 0;
        return Write(all[at]), 1;
      }
      default: EXPECT_TRUE(IsWhole(all[at])); return 0;
    }
  }
};

TEST_F(ManyLocksTest, FreshBiasedAndFavoured_UsedByAllThreads_NothingIsLost) {
  std::deque<Guarded> all(static_cast<size_t>(Scaled(4'000, 10'000)));
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 4 == 1) testing::ReadOften(all[i].lock);
    if (i % 16 == 2) testing::WriteOften(all[i].lock);
  }
  const int64_t steps = Scaled(40'000, 2'000'000);
  std::vector<int64_t> writes(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(Seed() + t));
      int64_t written = 0;
      for (int64_t step = 0; step < steps; ++step) written += Step(all, random);
      writes[t] = written;
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t first = 0;
  int64_t second = 0;
  for (Guarded& guarded : all) {
    EXPECT_TRUE(std::unique_lock(guarded.lock, std::try_to_lock).owns_lock());
    first += guarded.first;
    second += guarded.second;
  }
  int64_t written = 0;
  for (const int64_t each : writes) written += each;
  EXPECT_EQ(first, written) << "seed " << Seed();
  EXPECT_EQ(second, written);
}

// Locks come and go at the same addresses; what a thread published of the old one must not pass for the new one's.
TEST_F(ManyLocksTest, NewLocks_WhereOldOnesStoodThatWereBiasedOrFavoured_StartFree) {
  std::deque<Guarded> all;
  for (int64_t round = Scaled(100, 3'000); round > 0; --round) {
    all.resize(16);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < all.size(); ++i) {
          if (i % 2 == 0) testing::ReadOften(all[i].lock, testing::kManyReads / 2);
          if (i % kThreads == static_cast<size_t>(t)) Write(all[i]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    testing::WriteOften(all.front().lock);
    for (Guarded& guarded : all) EXPECT_EQ(guarded.first, 1);
    all.clear();
  }
}

}  // namespace
}  // namespace stockade
