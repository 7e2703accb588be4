#ifndef STOCKADE_LOCKS_SRC_THREAD_HOLDS_H_
#define STOCKADE_LOCKS_SRC_THREAD_HOLDS_H_

#include <chrono>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "stockade/base/fork_guard.h"
#include "stockade/locks/lock_core.h"

namespace stockade::internal {

// What one thread holds of one lock. Invariant: reads + writes > 0 between two calls of the lock.
struct Hold {
  uint32_t reads = 0;
  uint32_t writes = 0;
  // When the outermost hold began, if it is one of the sampled; the epoch if not.
  std::chrono::steady_clock::time_point sampled_since{};
};

// What one thread holds: touched by that thread alone, so without synchronization. A lock that is held is alive (its
// destructor aborts otherwise), so the keys are.
//
// The thread reaches it through a trivial thread_local pointer, which outlives every destructor of a thread_local, and
// it is freed by a pthread key's destructor, which runs after all of them: a thread that then still holds something
// aborts with the lock's name. If a key's destructor uses locks later still, the record is made anew. exit() runs no
// key destructors, so for destructors of statics the main thread's record is simply still there.
//
// A record from before a fork is not believed in the child: its locks may not be used there, and new locks can have the
// addresses of old ones.
class ThreadHolds {
 public:
  // The calling thread's. The first call of a thread allocates.
  static ThreadHolds& Mine();

  // Null where the thread does not hold `lock`.
  Hold* Find(const LockCore* lock) {
    const auto found = holds_.find(lock);
    return found == holds_.end() ? nullptr : &found->second;
  }
  // The thread must not hold it yet. Valid until the next Add().
  Hold& Add(const LockCore* lock) { return holds_[lock]; }
  void Remove(const LockCore* lock) { holds_.erase(lock); }

  // Whether the hold that begins now is to be timed: the first, and every kHoldSampling-th after it.
  bool NextIsSampled();

 private:
  static ThreadHolds& Make();
  static void AtThreadEnd(void* holds);

  const ForkGuard fork_guard_;
  absl::flat_hash_map<const LockCore*, Hold> holds_;
  uint32_t until_sample_ = 0;
  bool end_seen_ = false;  // AtThreadEnd() has found holds once.
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_THREAD_HOLDS_H_
