#ifndef STOCKADE_LOCKS_SRC_SERVICE_ASYNC_ACQUIRER_H_
#define STOCKADE_LOCKS_SRC_SERVICE_ASYNC_ACQUIRER_H_

#include <memory>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/lock_service.h"

namespace stockade::locks_internal {

class ServiceCore;

// Drives acquisitions that no thread waits for: one thread, which starts with the first. What is ready is tried
// together, in one round trip where the engine can.
class AsyncAcquirer {
 public:
  explicit AsyncAcquirer(ServiceCore& core);
  ~AsyncAcquirer();
  AsyncAcquirer(const AsyncAcquirer&) = delete;
  AsyncAcquirer& operator=(const AsyncAcquirer&) = delete;

  // Thread-safe. `options` are valid, with an owner. Not OK: nothing was done, and `done` is as it was. Cancelled:
  // stopped. ResourceExhausted: the thread cannot be started.
  absl::Status Add(std::string_view name, const AcquireOptions& options, LockService::Callback& done);
  // Once the service is stopping: what is left is Cancelled, and the thread joined. By one thread.
  void Stop();

 private:
  class Op;

  void Run();
  void Advance(const std::vector<Op*>& ops);
  void TryTogether(const std::vector<Op*>& ops);
  void PushReady(Op& op) STOCKADE_REQUIRES(mutex_);
  // After a look or a try: told, or waits for its time.
  void Settle(Op& op, Instant again);
  // Called by any thread, which may hold other mutexes.
  void Ready(Op& op) STOCKADE_EXCLUDES(mutex_);
  // Of the stop token of its options.
  void Stopped(Op& op);

  ServiceCore& core_;
  Mutex mutex_;
  CondVar changed_;  // ready_, or stopping_.
  std::vector<Op*> ready_ STOCKADE_GUARDED_BY(mutex_);
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Started with mutex_ held.
  // Only the thread uses it, except that Add() inserts each op.
  absl::flat_hash_map<Op*, std::unique_ptr<Op>> ops_ STOCKADE_GUARDED_BY(mutex_);
  std::set<std::pair<Instant, Op*>> timers_;  // Of the thread alone.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_ASYNC_ACQUIRER_H_
