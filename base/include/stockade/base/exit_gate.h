#ifndef STOCKADE_BASE_EXIT_GATE_H_
#define STOCKADE_BASE_EXIT_GATE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "stockade/base/floors.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/mutex.h"

namespace stockade::base_internal {

// Keeps threads out of a library that cleans up at exit, though objects of ours live longer: the library calls Close()
// before it begins. An object of static storage that is never destroyed. Thread-safe.
class ExitGate {
 public:
  // While it lives, Close() does not return. False: the gate is closed, and the library must not be touched.
  class Inside {
   public:
    // Either this sees the gate closed, or Close() sees this inside: both are sequentially consistent.
    explicit Inside(ExitGate& gate) : gate_(gate) {
      gate_.inside_.fetch_add(1);
      entered_ = !gate_.closed_.load();
      if (!entered_) Leave();
    }
    ~Inside() {
      if (entered_) Leave();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    explicit operator bool() const { return entered_; }

   private:
    void Leave() {
      if (gate_.inside_.fetch_sub(1) == 1 && gate_.closed_.load()) gate_.inside_.notify_all();
    }

    ExitGate& gate_;
    bool entered_;
  };

  // For good. Blocks until nobody is inside, except in a forked child, where those that were inside are not.
  void Close() {
    closed_.store(true);
    if (fork_guard_.InForkedChild()) return;
    for (int64_t count = inside_.load(); count != 0; count = inside_.load()) inside_.wait(count);
  }

  // Takes an object that the library may not free any more. So leak checkers find a pointer to it.
  void Keep(void* object) {
    const MutexLock lock(mutex_);
    kept_.push_back(object);
  }

 private:
  Mutex mutex_;
  std::vector<void*> kept_ STOCKADE_GUARDED_BY(mutex_);
  std::atomic<int64_t> inside_{0};
  std::atomic<bool> closed_{false};
  const ForkGuard fork_guard_ = {};
};

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_EXIT_GATE_H_
