#ifndef STOCKADE_LOCKS_SRC_HINT_EAR_H_
#define STOCKADE_LOCKS_SRC_HINT_EAR_H_

#include <functional>
#include <mutex>
#include <utility>

#include "stockade/locks/lock_engine.h"

namespace stockade::internal {

// The callback of a LockWatch. Threads that notice a release invoke it, with no mutex held that engine calls take,
// because the callback may make such calls.
class HintEar {
 public:
  HintEar(HoldKey hold, std::function<void()> on_hint) : hold_(std::move(hold)), on_hint_(std::move(on_hint)) {}

  const HoldKey& hold() const { return hold_; }

  void Tell() {
    const std::lock_guard lock(mutex_);
    if (!closed_) on_hint_();
  }
  // Waits for a hint that is running, unless that hint makes this call; afterwards no hint is given.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  const HoldKey hold_;
  const std::function<void()> on_hint_;
  std::recursive_mutex mutex_;  // Held during the call, which may close it.
  bool closed_ = false;
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_HINT_EAR_H_
