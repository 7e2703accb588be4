#include "stockade/locks/fallback_lock_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "circuit.h"
#include "local_lock_engine.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/locks/engine_lock_service.h"
#include "stockade/metrics/metric_set.h"

namespace stockade {
namespace {

using base_internal::Concat;

constexpr metrics_internal::MetricDef kMetrics[] = {
    {metrics_internal::MetricType::kCounter, "stockade_lock_service_degraded_acquisitions_total",
     "Acquisitions of a local lock because the primary was unavailable; owners in other processes may hold the lock, "
     "too."},
};

// Which of the two to ask, and what is counted and logged of it. Callbacks share it with the service, which they may
// outlive.
class Choice {
 public:
  Choice(const LockServiceOptions& options, std::string_view primary)
      : subject_(Concat("lock service '", options.name, "' (", primary, ")")),
        circuit_(options.clock, options.engine_timeout),
        metrics_(options.metrics, kMetrics, {{"service", options.name}}) {}

  bool AskPrimary() { return circuit_.MayAsk(); }

  // Whether the primary's answer stands.
  bool Stands(const absl::Status& answer) {
    if (absl::IsUnavailable(answer)) {
      if (circuit_.Failed()) {
        base_internal::Log(LogSeverity::kWarning, Concat(subject_, " falls back to local locks: ", answer.message()));
      }
      return false;
    }
    // Other errors (Cancelled, InvalidArgument, ...) are returned without asking the engine.
    if ((answer.ok() || absl::IsDeadlineExceeded(answer)) && circuit_.Answered()) {
      base_internal::Log(LogSeverity::kInfo, Concat(subject_, " answers again"));
    }
    return true;
  }

  void Count(const absl::Status& local) {
    if (local.ok()) metrics_.Add(0);
  }

 private:
  const std::string subject_;
  locks_internal::Circuit circuit_;
  metrics_internal::ComponentMetrics metrics_;
};

class Fallback final : public LockService {
 public:
  Fallback(std::unique_ptr<LockService> primary, std::unique_ptr<LockService> local, const LockServiceOptions& options)
      : clock_(options.clock),
        choice_(std::make_shared<Choice>(options, primary->id())),
        local_(std::move(local)),
        primary_(std::move(primary)) {}

  absl::StatusOr<LockLease> Acquire(std::string_view name, AcquireOptions options) override {
    const Instant deadline = clock_->Now() + options.wait;
    if (choice_->AskPrimary()) {
      absl::StatusOr<LockLease> held = primary_->Acquire(name, options);
      if (choice_->Stands(held.status())) return held;
    }
    options.wait = deadline - clock_->Now();
    absl::StatusOr<LockLease> held = local_->Acquire(name, std::move(options));
    choice_->Count(held.status());
    return held;
  }

  void AcquireAsync(std::string_view name, AcquireOptions options, Callback done) override {
    if (!done) base_internal::Fatal("FallbackLockService: AcquireAsync() was called without a callback");
    if (!choice_->AskPrimary()) return AcquireLocally(local_, choice_, name, std::move(options), std::move(done));
    primary_->AcquireAsync(
        name, options,
        [name = std::string(name), options, deadline = clock_->Now() + options.wait, clock = clock_, choice = choice_,
         local = std::weak_ptr(local_), done = std::move(done)](absl::StatusOr<LockLease> held) mutable {
          if (choice->Stands(held.status())) return done(std::move(held));
          const std::shared_ptr<LockService> there = local.lock();
          if (there == nullptr) return done(absl::CancelledError("the lock service was destroyed"));
          options.wait = deadline - clock->Now();
          AcquireLocally(there, choice, name, std::move(options), std::move(done));
        });
  }

  absl::StatusOr<LockState> Inspect(std::string_view name, LockOwner owner) override {
    absl::StatusOr<LockState> state = primary_->Inspect(name, owner);
    absl::StatusOr<LockState> local = local_->Inspect(name, owner);
    if (absl::IsUnavailable(state.status())) return local;
    if (!state.ok() || !local.ok()) return state;
    if (!state->locked) state->kind = local->kind;
    state->locked |= local->locked;
    state->owner_holds += local->owner_holds;
    state->remaining = std::max(state->remaining, local->remaining);
    return state;
  }

  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name) override {
    absl::StatusOr<std::optional<LockKind>> local = local_->ForceRelease(name);
    absl::StatusOr<std::optional<LockKind>> released = primary_->ForceRelease(name);
    if (released.ok() && local.ok() && !*released) return local;
    return released;
  }

  absl::Status ReleaseAll(Duration timeout) override {
    absl::Status released = local_->ReleaseAll(timeout);
    released.Update(primary_->ReleaseAll(timeout));
    return released;
  }

  std::string_view id() const override { return primary_->id(); }

 private:
  // The callback has no part of the service: it runs when that is destroyed, too.
  static void AcquireLocally(const std::shared_ptr<LockService>& local, const std::shared_ptr<Choice>& choice,
                             std::string_view name, AcquireOptions options, Callback done) {
    local->AcquireAsync(name, std::move(options),
                        [choice, done = std::move(done)](absl::StatusOr<LockLease> held) mutable {
                          choice->Count(held.status());
                          done(std::move(held));
                        });
  }

  Clock* const clock_;
  const std::shared_ptr<Choice> choice_;
  const std::shared_ptr<LockService> local_;
  const std::unique_ptr<LockService> primary_;  // Last: its callbacks ask the others.
};

}  // namespace

absl::StatusOr<std::unique_ptr<LockService>> FallbackLockService::Create(std::unique_ptr<LockService> primary,
                                                                         const LockServiceOptions& options) {
  if (primary == nullptr) return absl::InvalidArgumentError("FallbackLockService has no primary");
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<LockService>> local = locks_internal::MakeEngineLockService(
      std::make_unique<locks_internal::LocalLockEngine>(options.clock), options, /*degraded=*/true);
  if (!local.ok()) return local.status();
  return std::make_unique<Fallback>(std::move(primary), *std::move(local), options);
}

}  // namespace stockade
