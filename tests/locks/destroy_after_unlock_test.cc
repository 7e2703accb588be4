// The thread that gets the lock last destroys it right after unlock(), while earlier threads may still be on their way
// out of unlock(). So unlock() must not touch the lock once another thread can have it. AddressSanitizer checks this.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <memory>
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

constexpr int kUsers = 4;

// Lives as long as it has users; the last one, which has seen that it is the last while it held the lock, deletes it.
template <typename Lock>
struct Shared {
  explicit Shared(bool fifo) : lock({.fifo = fifo}) {}
  Lock lock;
  std::atomic<int> users{kUsers};
};

// Brings the lock into the condition that the round is about.
void Prepare(ReentrantSharedMutex& lock, int64_t round) {
  if (round % 3 == 1) testing::ReadOften(lock);
  if (round % 3 == 2) testing::WriteOften(lock);
}
void Prepare(ReentrantMutex& lock, int64_t round) {
  if (round % 2 == 1) testing::WriteOften(lock);
}

// What a user does before its last hold. A wait that is given up leaves the queue without ever having had the lock.
void UseForAWhile(ReentrantSharedMutex& lock, std::minstd_rand& random) {
  for (unsigned times = random() % 4; times > 0; --times) {
    switch (random() % 5) {
      case 0: std::unique_lock(lock, microseconds(random() % 20)).owns_lock(); break;
      case 1: std::shared_lock(lock, microseconds(random() % 20)).owns_lock(); break;
      case 2: std::unique_lock(lock).owns_lock(); break;
      default: std::shared_lock(lock).owns_lock();
    }
  }
}
void UseForAWhile(ReentrantMutex& lock, std::minstd_rand& random) {
  for (unsigned times = random() % 4; times > 0; --times) {
    if (random() % 2 == 0) {
      std::unique_lock(lock, microseconds(random() % 20)).owns_lock();
    } else {
      std::unique_lock(lock).owns_lock();
    }
  }
}

// The last hold, in which a user says that it is one no more; its release is the last that the user does.
void Leave(ReentrantSharedMutex& lock, std::atomic<int>& users, std::minstd_rand& random) {
  switch (random() % 5) {
    case 0: {
      std::lock_guard write(lock);
      --users;
      break;
    }
    case 1: {
      std::unique_lock write(lock);
      std::shared_lock read = Downgrade(std::move(write));
      --users;
      break;
    }
    case 2: {  // Gives up, or gets in: in either case that is all.
      std::unique_lock write(lock, microseconds(random() % 20));
      --users;
      break;
    }
    default: {
      std::shared_lock read(lock);
      --users;
      break;
    }
  }
}
void Leave(ReentrantMutex& lock, std::atomic<int>& users, std::minstd_rand& random) {
  std::unique_lock held(lock, std::defer_lock);
  if (random() % 3 != 0) {
    held.lock();
  } else {
    (void)held.try_lock_for(microseconds(random() % 20));
  }
  --users;
}

// Alone with the lock, which nobody comes for any more.
template <typename Lock>
void DeleteAsTheLast(std::unique_ptr<Shared<Lock>>& shared, std::minstd_rand& random) {
  for (bool last = false; !last;) {
    std::unique_lock held(shared->lock, std::defer_lock);
    if (random() % 2 == 0) {
      held.lock();
    }
    last = (held.owns_lock() || held.try_lock()) && shared->users == 1;
    held = {};
    if (!last) std::this_thread::yield();
  }
  shared.reset();
}

template <typename Lock>
void RunRounds(bool fifo, int64_t rounds) {
  std::unique_ptr<Shared<Lock>> shared;
  std::barrier step(kUsers);
  std::vector<std::thread> threads;
  for (int t = 0; t < kUsers; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(Seed() + t));
      for (int64_t round = 0; round < rounds; ++round) {
        if (round % kUsers == t) {
          shared = std::make_unique<Shared<Lock>>(fifo);
          Prepare(shared->lock, round / kUsers);
        }
        step.arrive_and_wait();
        Lock& lock = shared->lock;
        std::atomic<int>& users = shared->users;
        step.arrive_and_wait();
        UseForAWhile(lock, random);
        // Sometimes the one that the lock favours deletes it, and sometimes another.
        if ((round + round / kUsers) % kUsers == t) {
          DeleteAsTheLast(shared, random);
        } else {
          Leave(lock, users, random);
        }
        step.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class DestroyAfterUnlockTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Options, DestroyAfterUnlockTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

TEST_P(DestroyAfterUnlockTest, SharedMutex_TheLastUserDeletesIt_NobodyTouchesItAfterwards) {
  RunRounds<ReentrantSharedMutex>(GetParam(), Scaled(2'000, 200'000));
}

TEST_P(DestroyAfterUnlockTest, Mutex_TheLastUserDeletesIt_NobodyTouchesItAfterwards) {
  RunRounds<ReentrantMutex>(GetParam(), Scaled(2'000, 200'000));
}

}  // namespace
}  // namespace stockade
