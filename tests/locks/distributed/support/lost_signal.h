#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOST_SIGNAL_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOST_SIGNAL_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>

namespace stockade::testing {

// Whether a lease's lost() has run its callbacks. Ends before the lease.
class LostSignal {
 public:
  explicit LostSignal(std::stop_token lost) : callback_(std::move(lost), [this] { Tell(); }) {}

  bool told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  // Blocks until it is; false where that takes 30 seconds.
  bool Await() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [this] { return told_; });
  }

 private:
  void Tell() {
    const std::lock_guard lock(mutex_);
    told_ = true;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
  std::stop_callback<std::function<void()>> callback_;  // Last: it may be called at once.
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOST_SIGNAL_H_
