#ifndef STOCKADE_LOCKS_SRC_ENGINES_HINT_LISTENER_H_
#define STOCKADE_LOCKS_SRC_ENGINES_HINT_LISTENER_H_

#include <functional>
#include <mutex>
#include <utility>

#include "stockade/locks/lock_engine.h"

namespace stockade::locks_internal {

// The listener of a LockWatch, which threads that observe a release notify. Callers must not hold a mutex that engine
// calls acquire, because the callback may make such calls.
class HintListener {
 public:
  HintListener(HoldKey hold, std::function<void()> on_hint) : hold_(std::move(hold)), on_hint_(std::move(on_hint)) {}

  const HoldKey& hold() const { return hold_; }

  void Notify() {
    const std::lock_guard lock(mutex_);
    if (!closed_) on_hint_();
  }
  // Waits for a callback that is running, unless that callback calls it. The callback is not invoked any more.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  const HoldKey hold_;
  const std::function<void()> on_hint_;
  std::recursive_mutex mutex_;  // Held during the callback, which may call Close().
  bool closed_ = false;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_HINT_LISTENER_H_
