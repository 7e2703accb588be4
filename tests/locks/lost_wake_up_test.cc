// Some threads wait for ever and others give up after a moment. A thread that leaves the queue passes on the wake-up
// that was meant for it, so every thread that does not give up enters. A lost wake-up shows as a test that does not
// end.
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
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using std::chrono::microseconds;
using testing::Scaled;
using testing::Seed;

class LostWakeUpTest : public ::testing::TestWithParam<bool> {
 protected:
  // Without the FIFO option there is a switch between threads far more seldom, so all is done more often.
  static int64_t Times(int64_t short_run, int64_t full_run) {
    return Scaled(short_run, full_run) * (GetParam() ? 1 : 8);
  }

  // Runs `patient` threads that get in `times` each, while `hasty` ones come and give up.
  template <typename Patient, typename Hasty>
  void Run(int patient_threads, int64_t times, Patient patient, int hasty_threads, Hasty hasty) {
    std::atomic<int> patient_left = patient_threads;
    std::vector<std::thread> threads;
    for (int t = 0; t < patient_threads; ++t) {
      threads.emplace_back([&, t] {
        std::minstd_rand random(static_cast<unsigned>(Seed() + t));
        for (int64_t i = 0; i < times; ++i) patient(random);
        --patient_left;
      });
    }
    for (int t = 0; t < hasty_threads; ++t) {
      threads.emplace_back([&, t] {
        std::minstd_rand random(static_cast<unsigned>(Seed() + 100 + t));
        while (patient_left > 0) hasty(random);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};
INSTANTIATE_TEST_SUITE_P(Options, LostWakeUpTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

TEST_P(LostWakeUpTest, Mutex_ManyGiveUp_EveryOneThatDoesNotGetsIn) {
  ReentrantMutex lock({.fifo = GetParam()});
  int64_t plain = 0;
  const int64_t times = Times(3'000, 100'000);
  Run(
      3, times,
      [&](auto& random) {
        std::lock_guard held(lock);
        ++plain;
        if (random() % 4 == 0) std::this_thread::yield();  // So that others come while it is held.
      },
      5, [&](auto& random) { std::unique_lock(lock, microseconds(random() % 10)).owns_lock(); });
  EXPECT_EQ(plain, 3 * times);
  EXPECT_EQ(lock.waiters(), 0u);
}

TEST_P(LostWakeUpTest, SharedMutex_ManyGiveUp_EveryReaderAndWriterThatDoesNotGetsIn) {
  ReentrantSharedMutex lock({.fifo = GetParam()});
  std::atomic<int64_t> entered = 0;
  const int64_t times = Times(3'000, 100'000);
  Run(
      4, times,
      [&](auto& random) {
        if (random() % 2 == 0) {
          std::lock_guard held(lock);
          ++entered;
          if (random() % 4 == 0) std::this_thread::yield();
        } else {
          std::shared_lock held(lock);
          ++entered;
          if (random() % 4 == 0) std::this_thread::yield();
        }
      },
      5,
      [&](auto& random) {
        if (random() % 2 == 0) {
          std::unique_lock(lock, microseconds(random() % 10)).owns_lock();
        } else {
          std::shared_lock(lock, microseconds(random() % 10)).owns_lock();
        }
      });
  EXPECT_EQ(entered, 4 * times);
  EXPECT_EQ(lock.waiters(), 0u);
}

// Hasty writers call back published readers again and again and leave before they are gone.
TEST_P(LostWakeUpTest, BiasedLock_WritersGiveUpWhileTheyCallBack_ReadersAndAPatientWriterGetIn) {
  ReentrantSharedMutex lock({.fifo = GetParam()});
  std::atomic<int64_t> entered = 0;
  std::atomic<int64_t> published = 0;
  const int64_t times = Times(20'000, 500'000);
  testing::ReadOften(lock);
  Run(
      3, times,
      [&](auto& random) {
        if (random() % 5000 == 0) {
          std::lock_guard held(lock);
          ++entered;
          return;
        }
        std::shared_lock held(lock);
        ++entered;
        published += testing::IsPublished(lock) ? 1 : 0;
        if (random() % 256 == 0) std::this_thread::yield();
      },
      2,
      [&](auto& random) {
        if (published == 0) return std::this_thread::yield();  // There is no reader to call back yet.
        std::unique_lock(lock, microseconds(random() % 10)).owns_lock();
        for (unsigned i = random() % 64; i > 0; --i) std::this_thread::yield();
      });
  EXPECT_EQ(entered, 3 * times);
  EXPECT_GT(published, 0);
}

// The favoured thread holds for a moment; those who come call it back and leave before it has let go.
TEST_P(LostWakeUpTest, FavouredLock_OthersGiveUpWhileTheyCallBack_APatientOneGetsIn) {
  ReentrantSharedMutex lock({.fifo = GetParam()});
  int64_t plain = 0;
  int64_t published = 0;
  const int64_t rounds = Times(60, 1'000);
  for (int64_t round = 0; round < rounds; ++round) {
    testing::WriteOften(lock);
    std::atomic<bool> patient_was_in = false;
    std::vector<std::thread> others;
    for (int t = 0; t < 3; ++t) {
      others.emplace_back([&, t] {
        if (t == 0) {
          std::lock_guard held(lock);
          ++plain;
          patient_was_in = true;
        }
        while (!patient_was_in) {
          if (t == 1) std::unique_lock(lock, microseconds(20)).owns_lock();
          if (t == 2) std::shared_lock(lock, microseconds(20)).owns_lock();
        }
      });
    }
    while (!patient_was_in) {
      std::lock_guard held(lock);
      published += testing::IsPublished(lock) ? 1 : 0;
      ++plain;
      if (plain % 16 == 0) std::this_thread::yield();
    }
    for (std::thread& other : others) other.join();
  }
  EXPECT_GE(plain, rounds);
  if (!testing::LocksFavourThreads()) {
    EXPECT_EQ(published, 0);
  }
}

}  // namespace
}  // namespace stockade
