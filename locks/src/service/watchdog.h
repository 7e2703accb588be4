#ifndef STOCKADE_LOCKS_SRC_SERVICE_WATCHDOG_H_
#define STOCKADE_LOCKS_SRC_SERVICE_WATCHDOG_H_

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "hold.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"

namespace stockade::locks_internal {

class LossLog;

// Looks at holds when it is time: those that are to be renewed go to the engine together, those whose time is over are
// lost. One thread, which Start() starts. A hold is taken off before its release is sent, so none is
// renewed for ever; what a renewal that was on its way finds then is not looked at.
class Watchdog {
 public:
  explicit Watchdog(ServiceCore& core) : core_(core) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Before the first hold. Starts the thread unless it runs; ResourceExhausted: the system gives none.
  absl::Status Start();
  // Looks at it at that time, in place of an earlier wish. O(log holds). Holds may be locked.
  void WatchAt(const std::shared_ptr<ServiceHold>& hold, Instant at);
  void Forget(ServiceHold& hold);
  // Joins the thread. No hold is looked at any more. By one thread.
  void Stop();

 private:
  using Schedule = absl::btree_map<std::pair<Instant, ServiceHold*>, std::shared_ptr<ServiceHold>>;

  void Run();
  struct Due {
    std::shared_ptr<ServiceHold> hold;
    Instant at;
  };

  std::vector<Due> AwaitDue();
  void LookAt(const std::vector<Due>& due);
  void Renew(const std::vector<Due>& holds, LossLog& losses);

  ServiceCore& core_;
  Mutex mutex_;
  CondVar changed_;  // A hold is due earlier than all others, or stopping_.
  Schedule schedule_ STOCKADE_GUARDED_BY(mutex_);
  // When its thread wakes by itself. It is not postponed for a hold that has been forgotten, because a lock that is
  // acquired and released in turn must not wake the thread each time.
  Instant sleeps_until_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Started with mutex_ held.
  std::atomic<bool> started_{false};
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_WATCHDOG_H_
