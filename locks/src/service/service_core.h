#ifndef STOCKADE_LOCKS_SRC_SERVICE_SERVICE_CORE_H_
#define STOCKADE_LOCKS_SRC_SERVICE_SERVICE_CORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "async_acquirer.h"
#include "hold.h"
#include "hold_table.h"
#include "loss_log.h"
#include "service_metrics.h"
#include "stockade/base/executor.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/mutex.h"
#include "stockade/base/timer_queue.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/locks/lock_service.h"
#include "stockade/metrics/metric_set.h"
#include "stoppable_acquirer.h"
#include "take_back.h"
#include "token_floor.h"
#include "wait_room.h"
#include "watchdog.h"

namespace stockade::locks_internal {

using ReleaseCallback = absl::AnyInvocable<void(absl::Status)>;
// Exceptions are logged.
void RunReleaseCallback(ReleaseCallback& done, absl::Status status);

// What an EngineLockService and its leases share; leases keep it alive, without its engine, once the service is gone.
//
// Order of mutexes: a record's steps, a hold's mutex, then one of: the table's, the room's and then the asynchronous
// acquirer's, the watchdog's, the timers'. None but the steps is held while the engine is asked.
class ServiceCore : public std::enable_shared_from_this<ServiceCore> {
 public:
  ServiceCore(std::unique_ptr<LockEngine> engine, LockServiceOptions options, bool degraded);
  ~ServiceCore();

  // As LockService's.
  absl::StatusOr<LockLease> Acquire(std::string_view name, const AcquireOptions& options);
  void AcquireAsync(std::string_view name, AcquireOptions options, LockService::Callback done);
  absl::StatusOr<LockState> Inspect(std::string_view name, LockOwner owner);
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name);
  // As LockLease's.
  absl::Status Release(LeaseState& lease);
  // As LockLeases': each lease in this order, all within the longest engine_timeout of their services.
  static absl::Status ReleaseMany(std::span<LockLease* const> leases);
  // For its destructor, where it was not released before. Does not wait for an engine that is silent.
  absl::Status ReleaseOnce(LeaseState& lease);
  void ReleaseAsync(const std::shared_ptr<LeaseState>& lease, ReleaseCallback done);
  bool Valid(const LeaseState& lease);
  // As LockService's.
  absl::Status ReleaseAll(absl::Duration timeout);
  // Cancels what waits, waits until no call is inside, and ends everything. Once.
  void Shutdown();

  // For steps of an acquisition, whose record's steps are taken.
  //
  // The engine has answered, by `now`, that it acquired. Unavailable: so late that the lease is over; Aborted: it is a
  // re-entry, and what it re-entered is over. Then it is released again.
  absl::StatusOr<LockLease> Confirm(const std::shared_ptr<HoldRecord>& record, const LockTry& answer, Instant sent,
                                    Instant now, bool watched, std::optional<std::thread::id> thread);
  // Takes back a try that the engine may have run, and a place in its queue: once; release.status tells.
  void GiveUp(const HoldKey& key, HoldRecord& record, LockRelease& release, absl::Duration timeout);
  // The engine may run one of its steps yet, at some time.
  void NoteUnanswered(const std::shared_ptr<HoldRecord>& record);
  // Of a step that the engine has been asked for.
  void NoteAnswer(const absl::Status& status);
  uint64_t NextSequence() { return next_sequence_.fetch_add(1, std::memory_order_relaxed); }

  // False where there is none, or it is released or lost, which this may be the first to notice.
  bool StillHeld(const std::shared_ptr<ServiceHold>& hold, LossLog* told = nullptr);
  // False: it had been lost or released. `told`: takes what is logged, for several at once.
  bool Lose(const std::shared_ptr<ServiceHold>& hold, LossReason reason, LossLog* told = nullptr);
  // Until when a lease is valid here that the engine was asked for at `sent`.
  Instant ValidUntil(Instant sent, absl::Duration lease) const;
  // The lease with which a request sent at `sent` is valid until `until`: the inverse of ValidUntil().
  absl::Duration LeaseFor(Instant sent, Instant until) const;

  const LockServiceOptions& options() const { return options_; }
  LockEngine& engine() { return *engine_; }
  HoldTable& holds() { return holds_; }
  WaitRoom& room() { return room_; }
  const TokenFloor& token_floor() const { return token_floor_; }
  TakeBack& take_back() { return take_back_; }
  ComponentMetrics& metrics() { return metrics_; }
  // On options().executor, or the thread of its own; on the calling one if that has ended or cannot be started.
  void Schedule(Executor::Task task);
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  bool degraded() const { return degraded_; }
  const ForkGuard& fork_guard() const { return fork_guard_; }

 private:
  // A call, during which the engine is there.
  class Inside {
   public:
    explicit Inside(ServiceCore& core) : core_(core), entered_(core.Enter()) {}
    ~Inside() {
      if (entered_) core_.Leave();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    bool entered() const { return entered_; }

   private:
    ServiceCore& core_;
    const bool entered_;
  };

  bool Enter() {
    const MutexLock lock(mutex_);
    if (stopping()) return false;
    ++inside_;
    return true;
  }
  void Leave() {
    const MutexLock lock(mutex_);
    if (--inside_ == 0) outside_.NotifyAll();
  }

  // Returns once all callbacks that were scheduled have run.
  void EndOwnThread();
  static absl::Status CheckName(std::string_view name);
  absl::Status CheckAcquire(std::string_view name, const AcquireOptions& options) const;
  // Both with an owner in `options`.
  absl::StatusOr<LockLease> AcquireStoppable(std::string_view name, const AcquireOptions& options,
                                             std::optional<std::thread::id> thread);
  absl::StatusOr<LockLease> AcquireBlocking(std::string_view name, const AcquireOptions& options,
                                            std::optional<std::thread::id> thread);
  // ResourceExhausted: a thread that the lease will need cannot be started.
  absl::Status StartThreads(std::string_view name, const AcquireOptions& options);
  void CountAcquisition(const absl::Status& status);
  bool StillHeldAt(Instant now, const std::shared_ptr<ServiceHold>& hold, LossLog* told = nullptr);

  void CheckThread(const LeaseState& lease);
  // A lease that is being released.
  struct Leaving;
  // The first error. Blocks at most for `timeout`.
  absl::Status ReleaseWithin(std::span<LeaseState* const> leases, absl::Duration timeout, bool wait_for_silent_engine);
  // Takes the leases that are marked off their holds, in this order, and has the engine know it. Also while the service
  // is stopping, as long as the engine is there.
  void EndLeases(std::span<Leaving> all, Instant give_up_at, bool wait_for_silent_engine);
  void EndWithService(Leaving& leaving);
  // Takes the lease off its hold. False, and a status: the hold was lost.
  bool BeginLeaving(Leaving& leaving);
  // Sends to the engine what has begun, and takes its answers.
  void SendLeaving(std::vector<Leaving*>& together, Instant give_up_at);
  void EndLeaving(Leaving& leaving);
  // Has the answer of ReleaseAsync() told, after the lease's callbacks.
  void TellReleased(LeaseState& lease, absl::Status status, ReleaseCallback done);
  // Asks the engine to leave `keep` holds, again while it does not answer, until `give_up_at`.
  absl::Status SendRelease(const HoldKey& key, const std::shared_ptr<HoldRecord>& record, int64_t keep,
                           Instant give_up_at, bool& held);
  // The parts of that: what the step is sent with, and whether its answer is final; `status` is then the caller's.
  void PrepareRelease(LockRelease& release, HoldRecord& record, Instant give_up_at);
  bool TakeRelease(LockRelease& release, const std::shared_ptr<HoldRecord>& record, Instant give_up_at);
  Instant EngineTimeout() const { return options_.clock->Now() + options_.engine_timeout; }
  // Unpins it then, or later where it has been noted again.
  void KeepUntil(const std::shared_ptr<HoldRecord>& record, Instant until);
  void KeepTime(const std::shared_ptr<ServiceHold>& hold) STOCKADE_REQUIRES(hold->mutex);
  void StopTime(ServiceHold& hold) STOCKADE_REQUIRES(hold.mutex);
  void End(ServiceHold& hold, Instant now) STOCKADE_REQUIRES(hold.mutex);

  const LockServiceOptions options_;
  const bool degraded_;
  const ForkGuard fork_guard_;
  std::unique_ptr<LockEngine> engine_;  // Null once shut down.
  std::atomic<uint64_t> next_sequence_{1};
  TokenFloor token_floor_;
  std::atomic<int64_t> held_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> engine_silent_{false};  // It has not answered what it was asked last.

  Mutex mutex_;
  CondVar outside_;                                                     // inside_ became 0.
  size_t inside_ STOCKADE_GUARDED_BY(mutex_) = 0;                       // Calls.
  std::unique_ptr<ThreadPool> own_thread_ STOCKADE_GUARDED_BY(mutex_);  // Made when it is needed.
  bool own_thread_ended_ STOCKADE_GUARDED_BY(mutex_) = false;           // None is made any more.

  HoldTable holds_;
  WaitRoom room_;
  TimerQueue expiry_;  // Of holds that nothing renews, and of records that are kept.
  Watchdog watchdog_;
  TakeBack take_back_;
  AsyncAcquirer async_;
  StoppableAcquirer stoppable_;
  ComponentMetrics metrics_;  // Last: its gauges read the above.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_SERVICE_CORE_H_
