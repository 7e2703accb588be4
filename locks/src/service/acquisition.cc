#include "acquisition.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine_status.h"
#include "service_core.h"
#include "shown_lock.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

// Between tries that the engine does not answer: doubles from the one to the other.
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);

}  // namespace

Acquisition::Acquisition(ServiceCore& core, std::string_view name, const AcquireOptions& options,
                         std::optional<std::thread::id> thread, Waiter& waiter, bool may_block)
    : core_(core),
      options_(options),
      waiter_(waiter),
      thread_(thread),
      may_block_(may_block),
      key_{.name = std::string(name), .kind = options.kind, .owner = options.owner->id()},
      record_(core.holds().Pin(key_)),
      began_(core.options().clock->Now()),
      give_up_at_(began_ + options.wait),
      pause_(kFirstPause) {
  call_.hold = key_;
  call_.lease = options.lease > absl::ZeroDuration() ? options.lease : core.options().watchdog_lease;
  call_.queue = core.engine().Queues(options.kind) && options.wait > absl::ZeroDuration();
}

Acquisition::~Acquisition() {
  if (waits_) core_.room().Leave(waiter_, entered_);
  core_.holds().Unpin(*record_);
}

bool Acquisition::OwnerHolds(LockKind kind) {
  if (kind == key_.kind) return core_.StillHeld(record_->HoldAs(kind));
  return core_.StillHeld(core_.holds().Find({.name = key_.name, .kind = kind, .owner = key_.owner}));
}

absl::Status Acquisition::CheckOtherHolds() {
  const std::optional<LockKind> twin = ExclusiveTwin(key_.kind);
  if (twin && OwnerHolds(*twin)) {
    return absl::FailedPreconditionError(Concat(ShownLock(key_.name), ": its owner holds it as ", LockKindName(*twin),
                                                ", and cannot hold it as ", LockKindName(key_.kind), " too"));
  }
  if (key_.kind == LockKind::kWrite && !OwnerHolds(key_.kind) && OwnerHolds(LockKind::kRead)) {
    return absl::FailedPreconditionError(
        Concat(ShownLock(key_.name), ": its owner holds it for reading, and would wait for itself to write"));
  }
  return absl::OkStatus();
}

bool Acquisition::BeginTry() {
  // Checked before the steps are taken: if this check notices a loss, its callbacks may run here and acquire.
  (void)OwnerHolds(key_.kind);
  absl::Status refused = CheckOtherHolds();
  if (!step_since_) step_since_ = core_.options().clock->Now();
  const Instant began = failing_since_.value_or(*step_since_);
  const Instant last = began + core_.options().engine_timeout;
  if (refused.ok()) {
    Clock& clock = *core_.options().clock;
    if (may_block_ ? !record_->LockSteps(clock, last) : !record_->TryLockSteps()) {
      if (clock.Now() < last) return false;
      Fail(absl::UnavailableError(Concat(ShownLock(key_.name), ": ", core_.engine().id(),
                                         " has not answered another call of the same owner within ",
                                         absl::FormatDuration(core_.options().engine_timeout))));
      return false;
    }
    // With the steps nobody else confirms a hold of this kind or of its twin.
    refused = CheckOtherHolds();
    if (!refused.ok()) record_->UnlockSteps();
  }
  if (!refused.ok()) {
    Fail(std::move(refused));
    return false;
  }
  // Not while it is failing: what its tries do not follow it passes on when it leaves.
  if (waits_ && !failing_since_) core_.room().ForgetHint(waiter_);
  tried_ = true;
  const Instant now = core_.options().clock->Now();
  copied_ = unanswered_;
  if (!unanswered_) {
    call_.sequence = core_.NextSequence();
    sent_ = now;
  }
  call_.repeated = record_->unanswered;
  // For good: what is lost is not renewed any more.
  call_.first = !OwnerHolds(key_.kind);
  call_.outside_write = key_.kind == LockKind::kRead && !OwnerHolds(LockKind::kWrite);
  call_.least_token = core_.token_floor().At(now);
  call_.timeout = std::max(last - now, absl::Milliseconds(1));
  call_.status = absl::OkStatus();
  call_.outcome_unknown = false;
  call_.refused = false;
  call_.hold_gone = false;
  call_.acquired = false;
  call_.session = nullptr;
  call_.retry_after = absl::InfiniteDuration();
  return true;
}

void Acquisition::EndTry() {
  const Instant due_since = *std::exchange(step_since_, std::nullopt);
  core_.metrics().Add(kServiceRoundTrips);
  core_.NoteAnswer(call_.refused ? absl::OkStatus() : call_.status);
  if (call_.status.ok() && call_.acquired && options_.stop.stop_requested()) {  // Its caller may have left.
    unanswered_ = false;
    may_hold_remotely_ = true;
    failing_since_.reset();
    record_->UnlockSteps();
    return Fail(CallerGaveUp(key_.name));
  }
  if (call_.status.ok() && call_.acquired) {
    unanswered_ = may_hold_remotely_ = false;
    const Instant now = core_.options().clock->Now();
    const bool watched = options_.lease <= absl::ZeroDuration();
    absl::StatusOr<LockLease> lease = core_.Confirm(record_, call_, sent_, now, watched, thread_);
    record_->UnlockSteps();
    if (!lease.ok()) {
      const bool copied = std::exchange(copied_, false);
      if (!copied && !absl::IsAborted(lease.status())) return Fail(std::move(lease).status());
      // Over since its first sending, or what it re-entered is; the engine answers now, so the next one is in time.
      failing_since_ = look_at_ = core_.options().clock->Now();
      return;
    }
    core_.metrics().ObserveSpan(kServiceWaitSeconds, began_, now);
    entered_ = true;
    outcome_ = std::move(lease);
    return;
  }
  if (call_.outcome_unknown) core_.NoteUnanswered(record_);
  record_->UnlockSteps();
  const Instant now = core_.options().clock->Now();
  if (call_.status.ok()) {
    OnBusy(now);
  } else {
    core_.metrics().Add(kServiceEngineErrors);
    OnFailure(now, due_since);
  }
}

void Acquisition::OnFailure(Instant now, Instant due_since) {
  if (call_.hold_gone) {
    if (const std::shared_ptr<ServiceHold> hold = record_->CurrentHold()) (void)core_.Lose(hold, LossReason::kGone);
  }
  if (call_.outcome_unknown) unanswered_ = may_hold_remotely_ = true;
  if (absl::IsAborted(call_.status)) unanswered_ = false;  // The step has not run and will not: give it a new number.
  if (waits_ && !failing_since_) core_.room().DoubtHints(waiter_);
  if (call_.refused || !MayPass(call_.status)) return Fail(Listed(call_.status));
  if (!failing_since_) failing_since_ = due_since;
  const Instant last = *failing_since_ + core_.options().engine_timeout;
  if (now >= last) {
    return Fail(absl::UnavailableError(
        Concat(ShownLock(key_.name), ": ", core_.engine().id(), " neither granted nor refused it within ",
               absl::FormatDuration(core_.options().engine_timeout), ": ", call_.status.message())));
  }
  look_at_ = std::min(now + pause_, last);
  pause_ = std::min(2 * pause_, kLongestPause);
}

void Acquisition::OnBusy(Instant now) {
  unanswered_ = false;
  failing_since_.reset();
  pause_ = kFirstPause;
  queued_ = call_.queue;
  if (now >= give_up_at_) return Fail(Busy());
  // As often as holders look: who waits learns as soon as they do that the engine is away.
  const Instant retry_at = now + std::min(call_.retry_after, core_.options().watchdog_lease / 3);
  if (std::exchange(waits_, true)) {
    core_.room().SetRetryAt(waiter_, retry_at);
  } else {
    core_.room().Join(waiter_, key_, retry_at);
  }
}

bool Acquisition::Look() {
  if (done()) return false;
  if (core_.stopping()) {
    Fail(absl::CancelledError(Concat(ShownLock(key_.name), ": its service is being destroyed")));
    return false;
  }
  if (options_.stop.stop_requested()) {
    Fail(CallerGaveUp(key_.name));
    return false;
  }
  if (!tried_) return true;
  const Instant now = core_.options().clock->Now();
  if (failing_since_) return now >= look_at_;
  if (now >= give_up_at_) {
    Fail(Busy());
    return false;
  }
  if (core_.room().WorthATry(waiter_, now, look_at_)) return true;
  look_at_ = std::min(look_at_, give_up_at_);
  return false;
}

void Acquisition::Fail(absl::Status status) {
  outcome_ = std::move(status);
  if (!may_hold_remotely_ && !queued_) return;
  // A place in the queue is given up at once, where the engine answers; the caller need not wait for the rest.
  if (may_block_ && !failing_since_ && !unanswered_ && record_->TryLockSteps()) {
    LockRelease release;
    core_.GiveUp(key_, *record_, release, core_.options().engine_timeout);
    record_->UnlockSteps();
    if (release.status.ok()) return;
  }
  core_.holds().PinAgain(*record_);
  core_.take_back().Add(key_, record_, core_.options().clock->Now() + call_.lease);
}

absl::Status Acquisition::Busy() const {
  return absl::DeadlineExceededError(
      options_.wait > absl::ZeroDuration()
          ? Concat(ShownLock(key_.name), " (", LockKindName(key_.kind), "): others held it for ",
                   absl::FormatDuration(options_.wait))
          : Concat(ShownLock(key_.name), " (", LockKindName(key_.kind), "): others hold it"));
}

}  // namespace stockade::locks_internal
