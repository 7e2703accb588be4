#ifndef STOCKADE_TESTS_LOCKS_HAND_OFFS_H_
#define STOCKADE_TESTS_LOCKS_HAND_OFFS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lock_test_util.h"

namespace stockade::testing {

// How many of the others may come before a thread that waits.
inline constexpr int kMaxHandOffs = 100;

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

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_HAND_OFFS_H_
