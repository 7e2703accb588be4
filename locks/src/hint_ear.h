#ifndef STOCKADE_LOCKS_SRC_HINT_EAR_H_
#define STOCKADE_LOCKS_SRC_HINT_EAR_H_

#include <functional>
#include <mutex>
#include <utility>

namespace stockade::internal {

// What a watch of an engine is told by. Thread-safe; to be told without mutexes, as the callback may take locks under
// which the engine is used.
class HintEar {
 public:
  explicit HintEar(std::function<void()> on_hint) : on_hint_(std::move(on_hint)) {}

  void Tell() {
    const std::lock_guard lock(mutex_);
    if (!closed_) on_hint_();
  }
  // No call will begin any more; waits for one that runs, unless it is called by it.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  const std::function<void()> on_hint_;
  std::recursive_mutex mutex_;  // Held during the call, which may close it.
  bool closed_ = false;
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_HINT_EAR_H_
