#ifndef STOCKADE_LOCKS_SRC_HINT_EAR_H_
#define STOCKADE_LOCKS_SRC_HINT_EAR_H_

#include <functional>
#include <mutex>
#include <utility>

#include "stockade/locks/lock_engine.h"

namespace stockade::internal {

// What a LockWatch is told by, from the threads that learn of a release. To be called with no mutex held that engine
// calls take, as the callback may make some.
class HintEar {
 public:
  HintEar(HoldKey hold, std::function<void()> on_hint) : hold_(std::move(hold)), on_hint_(std::move(on_hint)) {}

  const HoldKey& hold() const { return hold_; }

  void Tell() {
    const std::lock_guard lock(mutex_);
    if (!closed_) on_hint_();
  }
  // Waits for a hint that runs, unless it is called by it; then none comes any more.
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
