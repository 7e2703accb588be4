#ifndef STOCKADE_LOCKS_SRC_SERVICE_STOPPABLE_ACQUIRER_H_
#define STOCKADE_LOCKS_SRC_SERVICE_STOPPABLE_ACQUIRER_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/lock_lease.h"

namespace stockade::locks_internal {

// Runs acquires that a stop token may end. Each has a thread of its own, because a caller that waits for the engine
// itself cannot leave while the engine does not answer. Thread-safe.
class StoppableAcquirer {
 public:
  using Acquire = std::function<absl::StatusOr<LockLease>()>;

  StoppableAcquirer() = default;
  StoppableAcquirer(const StoppableAcquirer&) = delete;
  StoppableAcquirer& operator=(const StoppableAcquirer&) = delete;

  // Blocks until `acquire`, which runs on another thread, has returned, and returns what it returned. Once `stop` is
  // requested it waits for kGrace at most: then it returns `cancelled`, and releases what `acquire` returns later. If
  // the thread cannot be started, `acquire` runs on this one, and while the engine does not answer `stop` has to wait
  // for the engine's time-out.
  absl::StatusOr<LockLease> Run(const std::stop_token& stop, const absl::Status& cancelled, const Acquire& acquire);

  // Waits for all that callers have left. Nothing calls Run() any more.
  void Stop();

 private:
  struct Call {
    Mutex mutex = {};
    std::condition_variable_any returned = {};
    std::optional<absl::StatusOr<LockLease>> outcome STOCKADE_GUARDED_BY(mutex) = {};
    bool left STOCKADE_GUARDED_BY(mutex) = false;   // The caller is gone.
    bool ended STOCKADE_GUARDED_BY(mutex) = false;  // The thread does nothing more.
  };
  struct Left {
    std::shared_ptr<Call> call;
    std::thread thread;
  };

  static void RunCall(Call& call, const Acquire& acquire);
  void Leave(std::shared_ptr<Call> call, std::thread thread) STOCKADE_EXCLUDES(call->mutex);

  Mutex mutex_;
  std::vector<Left> left_ STOCKADE_GUARDED_BY(mutex_);
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_STOPPABLE_ACQUIRER_H_
