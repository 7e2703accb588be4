// Readers look for a pair of plain integers that a writer is about to change, while bias and favour come and go.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "lock_condition.h"
#include "stockade/base/cpu_relax.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using std::chrono::microseconds;
using testing::IsPublished;
using testing::Scaled;
using testing::Seed;

constexpr int kThreads = 4;

// The two are equal whenever nobody writes.
class TornPairTest : public ::testing::TestWithParam<bool> {
 protected:
  // By a thread that is in, in either mode.
  void Look() {
    torn_ += first_ != second_ ? 1 : 0;
    if (IsPublished(lock_)) ++published_;
  }
  // By the writer, `delay` pauses apart.
  void Change(unsigned delay) {
    if (IsPublished(lock_)) ++published_writes_;
    torn_ += first_ != second_ ? 1 : 0;
    ++first_;
    for (unsigned step = 0; step < delay; ++step) base_internal::CpuRelax();
    ++second_;
    ++changes_;
  }

  void Read() {
    std::shared_lock read(lock_);
    Look();
  }
  void Write(unsigned delay) {
    std::lock_guard write(lock_);
    Change(delay);
  }

  // One operation of any kind.
  void Mixed(std::minstd_rand& random) {
    const unsigned delay = random() % 32;
    switch (random() % 10) {
      case 0: Write(delay); break;
      case 1: {
        std::unique_lock write(lock_, microseconds(random() % 30));
        if (write.owns_lock()) Change(delay);
        break;
      }
      case 2: {
        std::shared_lock read(lock_, microseconds(random() % 30));
        if (read.owns_lock()) Look();
        break;
      }
      case 3: {
        std::unique_lock write(lock_, std::try_to_lock);
        if (write.owns_lock()) Change(delay);
        break;
      }
      case 4: {
        std::shared_lock read(lock_);
        Look();
        const int64_t seen = first_;
        if (lock_.try_upgrade()) {
          torn_ += seen != first_ ? 1 : 0;  // Nobody wrote in between.
          Change(delay);
          lock_.downgrade();
        }
        Look();
        break;
      }
      case 5: {
        std::unique_lock write(lock_);
        Change(delay);
        const int64_t written = first_;
        std::shared_lock read = Downgrade(std::move(write));
        Look();
        torn_ += written != first_ ? 1 : 0;
        break;
      }
      default: Read();
    }
  }

  // The threads begin a phase together but do not end it together: who is through goes on to the mixed part, and so
  // ends a run in which others still are.
  void Phase(int self, int64_t phase, std::minstd_rand& random) {
    switch (phase % 3) {
      case 0:
        for (int i = 0; i < testing::kManyReads; ++i) Read();
        break;
      case 1:
        if (self == phase / 3 % kThreads) testing::WriteOften(lock_);
        break;
      default: break;
    }
    for (int i = 0; i < 100; ++i) Mixed(random);
  }

  ReentrantSharedMutex lock_{{.fifo = GetParam()}};
  int64_t first_ = 0;
  int64_t second_ = 0;
  int64_t changes_ = 0;  // Guarded by lock_, too.
  std::atomic<int64_t> torn_{0};
  std::atomic<int64_t> published_{0};
  std::atomic<int64_t> published_writes_{0};
};
INSTANTIATE_TEST_SUITE_P(Options, TornPairTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

TEST_P(TornPairTest, ReadersAndWriters_WhileBiasAndFavourComeAndGo_SeeNoHalfOfAChange) {
  const int64_t phases = Scaled(4'000, 60'000);
  std::barrier begin(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(Seed() + t));
      for (int64_t phase = 0; phase < phases; ++phase) {
        begin.arrive_and_wait();
        Phase(t, phase, random);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn_, 0) << "seed " << Seed();
  EXPECT_EQ(first_, second_);
  EXPECT_EQ(first_, changes_);
  EXPECT_EQ(lock_.waiters(), 0u);
  EXPECT_GT(published_, 0);
  EXPECT_EQ(published_writes_ > 0, testing::LocksFavourThreads());
}

// Nothing but published readers and writers who call them back: each write begins a new run of reads.
TEST_P(TornPairTest, AWriterAfterEachRunOfReads_SeesNoReaderAndIsSeenByNone) {
  const int64_t writes = Scaled(200, 20'000);
  std::atomic<bool> done = false;
  std::atomic<int64_t> reads = 0;
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!done) {
        Read();
        ++reads;
      }
    });
  }
  std::minstd_rand random(static_cast<unsigned>(Seed()));
  for (int64_t i = 0; i < writes; ++i) {
    const int64_t enough = reads + testing::kManyReads / 2 + static_cast<int64_t>(random() % testing::kManyReads);
    while (reads < enough) std::this_thread::yield();
    Write(random() % 64);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn_, 0);
  EXPECT_EQ(first_, writes);
  EXPECT_GT(published_, 0);
}

// The favoured thread goes on writing while others come for one hold each: the favour is taken away in the middle.
TEST_P(TornPairTest, OthersComeBetweenTheWritesOfOneThread_NoChangeIsLost) {
  const int64_t rounds = Scaled(600, 10'000);
  std::atomic<int64_t> round = 0;
  std::vector<std::thread> others;
  for (int t = 0; t < 3; ++t) {
    others.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(Seed() + t));
      for (int64_t next = 1; next <= rounds; ++next) {
        while (round < next) std::this_thread::yield();
        for (int i = 0; i < 4; ++i) Mixed(random);
      }
    });
  }
  for (int64_t next = 1; next <= rounds; ++next) {
    // Half of the others write; each write of another's begins a new run.
    for (int i = 0; i < testing::kManyWrites; ++i) Write(0);
    round = next;
    for (int i = 0; i < 500; ++i) Write(8);
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(torn_, 0) << "seed " << Seed();
  EXPECT_EQ(first_, second_);
  EXPECT_EQ(first_, changes_);
  EXPECT_EQ(published_writes_ > 0, testing::LocksFavourThreads());
}

}  // namespace
}  // namespace stockade
