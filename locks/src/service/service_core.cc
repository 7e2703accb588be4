#include "service_core.h"

#include <algorithm>
#include <string>
#include <utility>

#include "acquisition.h"
#include "engine_status.h"
#include "shown_lock.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/parker.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

// Clocks that count in milliseconds, ours and the engine's.
constexpr absl::Duration kClockGrain = absl::Milliseconds(2);

ServiceMetric MetricOf(const absl::Status& acquired) {
  switch (acquired.code()) {
    case absl::StatusCode::kOk: return kServiceAcquired;
    case absl::StatusCode::kDeadlineExceeded: return kServiceBusy;
    case absl::StatusCode::kUnavailable: return kServiceUnavailable;
    case absl::StatusCode::kCancelled: return kServiceCancelled;
    default: return kServiceRefused;
  }
}

class BlockedThread final : public Waiter {
 public:
  explicit BlockedThread(Clock& clock) : parker_(clock) {}

  void Wake() override { parker_.Unpark(); }
  void ParkUntil(Instant at) { parker_.Park(at); }

 private:
  Parker parker_;
};

}  // namespace

ServiceCore::ServiceCore(std::unique_ptr<LockEngine> engine, LockServiceOptions options, bool degraded)
    : options_(std::move(options)),
      degraded_(degraded),
      engine_(std::move(engine)),
      room_(*engine_),
      expiry_(options_.clock),
      watchdog_(*this),
      take_back_(*this),
      async_(*this),
      metrics_(options_.metrics, ServiceMetricDefs(),
               {{"service", options_.name}, {"engine", std::string(engine_->kind())}}) {
  metrics_.AddGauge(kServiceHeld, [this] { return static_cast<double>(held_.load(std::memory_order_relaxed)); });
  metrics_.AddGauge(kServiceWaiters, [this] { return static_cast<double>(room_.waiters()); });
}

ServiceCore::~ServiceCore() = default;

void ServiceCore::Shutdown() {
  {
    const MutexLock lock(mutex_);
    stopping_.store(true, std::memory_order_release);
    room_.WakeAll();
    while (inside_ > 0) outside_.Wait(mutex_);
  }
  stoppable_.Stop();
  async_.Stop();
  take_back_.Stop();
  watchdog_.Stop();
  expiry_.Stop();
  for (const std::shared_ptr<ServiceHold>& hold : holds_.All()) Lose(hold, LossReason::kServiceEnded);
  EndOwnThread();
  engine_.reset();
}

absl::Status ServiceCore::CheckName(std::string_view name) {
  if (!name.empty() && name.size() <= kMaxLockNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Concat("the name of a lock must have 1 to ", kMaxLockNameBytes, " bytes, not ", name.size()));
}

absl::Status ServiceCore::CheckAcquire(std::string_view name, const AcquireOptions& options) const {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  if (absl::Status valid = CheckName(name); !valid.ok()) return valid;
  if (!engine_->Supports(options.kind)) {
    return absl::UnimplementedError(
        Concat(ShownLock(name), ": ", engine_->kind(), " has no locks of kind ", LockKindName(options.kind)));
  }
  if (options.require_growing_token && (degraded_ || !engine_->TokensSurviveFailover())) {
    return absl::FailedPreconditionError(
        Concat(ShownLock(name), ": require_growing_token: ", degraded_ ? "a degraded lease" : engine_->kind(),
               degraded_ ? " has no fencing token" : " does not guarantee that tokens grow across a failover"));
  }
  return absl::OkStatus();
}

// Before the engine is asked: a lease must not be granted that nothing renews, or that ends without a word. Which
// leases also have a session, whose end the timers watch, is known only later.
absl::Status ServiceCore::StartThreads(std::string_view name, const AcquireOptions& options) {
  const bool watched = options.lease <= absl::ZeroDuration();
  absl::Status started = watched ? watchdog_.Start() : expiry_.Start();
  if (started.ok()) return started;
  return absl::Status(started.code(), Concat(ShownLock(name), ": ", started.message()));
}

void ServiceCore::CountAcquisition(const absl::Status& status) { metrics_.Add(MetricOf(status)); }

absl::StatusOr<LockLease> ServiceCore::Acquire(std::string_view name, const AcquireOptions& options) {
  fork_guard_.Check("LockService", options_.name);
  const Inside inside(*this);
  if (!inside.entered()) return Ending();
  absl::Status valid = CheckAcquire(name, options);
  if (valid.ok()) valid = StartThreads(name, options);
  AcquireOptions owned = options;
  std::optional<std::thread::id> thread;
  if (!options.owner) {
    owned.owner = LockOwner::ThisThread();
    thread = std::this_thread::get_id();
  }
  absl::StatusOr<LockLease> lease = !valid.ok()                  ? absl::StatusOr<LockLease>(std::move(valid))
                                    : owned.stop.stop_possible() ? AcquireStoppable(name, owned, thread)
                                                                 : AcquireBlocking(name, owned, thread);
  CountAcquisition(lease.status());
  return lease;
}

absl::StatusOr<LockLease> ServiceCore::AcquireStoppable(std::string_view name, const AcquireOptions& options,
                                                        std::optional<std::thread::id> thread) {
  if (options.stop.stop_requested()) return CallerGaveUp(name);
  absl::StatusOr<LockLease> lease =
      stoppable_.Run(options.stop, CallerGaveUp(name), [this, name = std::string(name), options]() {
        const Inside inside(*this);
        return inside.entered() ? AcquireBlocking(name, options, std::nullopt) : absl::StatusOr<LockLease>(Ending());
      });
  if (lease.ok()) {  // Not before: what its caller has left is released by another thread.
    const MutexLock lock(lease->state_->hold->mutex);
    lease->state_->thread = thread;
  }
  return lease;
}

absl::StatusOr<LockLease> ServiceCore::AcquireBlocking(std::string_view name, const AcquireOptions& options,
                                                       std::optional<std::thread::id> thread) {
  BlockedThread driver(*options_.clock);
  Acquisition acquisition(*this, name, options, thread, driver, /*may_block=*/true);
  const auto wake = [&driver] { driver.Wake(); };
  std::optional<std::stop_callback<decltype(wake)>> on_stop;
  for (;;) {
    if (acquisition.Look()) {
      if (acquisition.BeginTry()) {
        engine_->TryMany({&acquisition.call(), 1});
        acquisition.EndTry();
      }
    } else if (!acquisition.done()) {
      if (!on_stop && options.stop.stop_possible()) on_stop.emplace(options.stop, wake);
      driver.ParkUntil(acquisition.look_at());
    }
    if (acquisition.done()) return acquisition.TakeOutcome();
  }
}

void ServiceCore::AcquireAsync(std::string_view name, AcquireOptions options, LockService::Callback done) {
  fork_guard_.Check("LockService", options_.name);
  if (!done) Fatal(Concat("lock service '", options_.name, "': AcquireAsync() was called without a callback"));
  LockService::Callback counted = [self = shared_from_this(),
                                   done = std::move(done)](absl::StatusOr<LockLease> lease) mutable {
    self->CountAcquisition(lease.status());
    const absl::Status ran = GuardCallback<absl::Status>("a callback of AcquireAsync()", [&] {
      done(std::move(lease));
      return absl::OkStatus();
    });
    if (!ran.ok()) Log(LogSeverity::kError, std::string(ran.message()));
  };
  const Inside inside(*this);
  absl::Status refused = inside.entered() ? CheckAcquire(name, options) : Ending();
  if (refused.ok()) {
    if (!options.owner) options.owner = LockOwner::New();
    refused = StartThreads(name, options);
    if (refused.ok()) refused = async_.Add(name, options, counted);
    if (refused.ok()) return;
  }
  Schedule([counted = std::move(counted), refused]() mutable { counted(refused); });
}

absl::StatusOr<LockState> ServiceCore::Inspect(std::string_view name, LockOwner owner) {
  fork_guard_.Check("LockService", options_.name);
  const Inside inside(*this);
  if (!inside.entered()) return Ending();
  if (absl::Status valid = CheckName(name); !valid.ok()) return valid;
  metrics_.Add(kServiceRoundTrips);
  absl::StatusOr<LockState> state = engine_->Inspect(name, owner.id(), options_.engine_timeout);
  if (!state.ok()) return Listed(state.status());
  return state;
}

absl::StatusOr<std::optional<LockKind>> ServiceCore::ForceRelease(std::string_view name) {
  fork_guard_.Check("LockService", options_.name);
  const Inside inside(*this);
  if (!inside.entered()) return Ending();
  if (absl::Status valid = CheckName(name); !valid.ok()) return valid;
  metrics_.Add(kServiceRoundTrips);
  absl::StatusOr<std::optional<LockKind>> freed = engine_->ForceRelease(name, options_.engine_timeout);
  if (!freed.ok()) return Listed(freed.status());
  return freed;
}

void ServiceCore::NoteAnswer(const absl::Status& status) {
  const bool silent = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  if (engine_silent_.load(std::memory_order_relaxed) != silent) {
    engine_silent_.store(silent, std::memory_order_relaxed);
  }
}

void ServiceCore::Schedule(Executor::Task task) {
  if (options_.executor != nullptr) return options_.executor->Schedule(std::move(task));
  {
    const MutexLock lock(mutex_);
    if (!own_thread_ended_) {
      if (own_thread_ == nullptr) {
        absl::StatusOr<std::unique_ptr<ThreadPool>> started = ThreadPool::Create(1);
        if (started.ok()) own_thread_ = *std::move(started);
      }
      if (own_thread_ != nullptr) return own_thread_->Schedule(std::move(task));
    }
  }
  InlineExecutor().Schedule(std::move(task));
}

void ServiceCore::EndOwnThread() {
  for (;;) {
    std::unique_ptr<ThreadPool> ending;  // Declared first: it runs what it has without the mutex, which that may take.
    const MutexLock lock(mutex_);
    ending = std::move(own_thread_);
    // What the one before has run may have needed another one.
    own_thread_ended_ = ending == nullptr;
    if (own_thread_ended_) return;
  }
}

Instant ServiceCore::ValidUntil(Instant sent, absl::Duration lease) const {
  return sent + lease * (1 - options_.clock_drift) - kClockGrain;
}

absl::Duration ServiceCore::LeaseFor(Instant sent, Instant until) const {
  return (until - sent + kClockGrain) / (1 - options_.clock_drift);
}

}  // namespace stockade::locks_internal
