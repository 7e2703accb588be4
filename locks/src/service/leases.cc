// What becomes of holds and leases: confirmed, kept in time, released, lost.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine_status.h"
#include "service_core.h"
#include "shown_lock.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/parker.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

// So late may a request come whose sender has given up: as long as engines remember the steps of what has ended.
constexpr absl::Duration kLatestArrival = absl::Seconds(20);

// Between releases that the engine does not answer.
constexpr absl::Duration kReleasePause = absl::Milliseconds(20);

absl::Status ReleasedBefore(const LeaseState& lease) {
  return absl::FailedPreconditionError(Concat(ShownLock(lease.hold->key.name), ": the lease was released before"));
}

}  // namespace

absl::StatusOr<LockLease> ServiceCore::Confirm(const std::shared_ptr<HoldRecord>& record, const LockTry& answer,
                                               Instant sent, Instant now, bool watched,
                                               std::optional<std::thread::id> thread) {
  std::shared_ptr<ServiceHold> hold = record->CurrentHold();
  if (StillHeld(hold)) {
    bool gone = false;
    {
      const MutexLock lock(hold->mutex);
      gone = answer.hold_count <= static_cast<int64_t>(hold->leases.size()) || answer.session != hold->session;
    }
    // The engine has started a new count, so the earlier hold is over: this is another hold.
    if (gone) Lose(hold, LossReason::kGone);
  }
  if (!answer.first && answer.hold_count > 1 && !StillHeld(hold)) {  // It has the token of what is lost.
    bool held = false;
    (void)SendRelease(answer.hold, record, 0, EngineTimeout(),
                      held);  // If that fails, the next try does not re-enter it.
    return absl::AbortedError(Concat(ShownLock(record->key.name), ": the hold that it re-entered was lost meanwhile"));
  }
  const Instant leased_until = ValidUntil(sent, answer.lease);
  const auto lease = std::make_shared<LeaseState>();
  lease->core = shared_from_this();
  lease->record = record;
  if (!degraded_) lease->token = answer.fencing_token;
  if (answer.fencing_token) token_floor_.Note(*answer.fencing_token, now);
  lease->watched = watched;
  lease->thread = thread;
  for (;;) {
    if (!StillHeld(hold)) {
      auto begun = std::make_shared<ServiceHold>(answer.hold, options_.clock, answer.session, leased_until);
      if (!begun->InTime()) {  // By the clock as it is now: what was lost above may have taken a while to tell.
        bool held = false;
        const absl::Status released = SendRelease(answer.hold, record, 0, EngineTimeout(), held);
        return absl::UnavailableError(
            Concat(ShownLock(record->key.name), ": ", engine_->id(), " took longer to answer than the lease of ",
                   absl::FormatDuration(answer.lease), released.ok() ? "" : ", and it could not be released"));
      }
      hold = std::move(begun);
      const MutexLock lock(record->mutex);
      record->hold = hold;
    }
    const MutexLock lock(hold->mutex);
    // Lost since it was looked at, or ended by a release that could not get the steps.
    if (hold->loss || hold->LeasedUntil() == Instant::InfinitePast()) continue;
    if (hold->leases.empty()) {
      hold->began = now;
      held_.fetch_add(1, std::memory_order_relaxed);
    }
    holds_.PinAgain(*record);
    lease->hold = hold;
    hold->leases.push_back(lease);
    lease->entry = ++hold->entries;
    hold->SetLeasedUntil(std::max(hold->LeasedUntil(), leased_until));
    hold->newest_step = std::max(hold->newest_step, answer.sequence);
    if (watched && ++hold->watched == 1) watchdog_.WatchAt(hold, sent + answer.lease / 3);
    KeepTime(hold);
    return LockLease(lease);
  }
}

void ServiceCore::KeepTime(const std::shared_ptr<ServiceHold>& hold) {
  if (hold->expiry) expiry_.Cancel(*std::exchange(hold->expiry, std::nullopt));
  if (hold->watched > 0 && hold->session == nullptr) return;  // The watchdog looks at it.
  hold->expiry = expiry_.Schedule(hold->ValidUntil(), [this, hold] {
    if (!StillHeld(hold)) return;
    const MutexLock lock(hold->mutex);  // Its session has been extended.
    if (!hold->leases.empty()) KeepTime(hold);
  });
}

void ServiceCore::StopTime(ServiceHold& hold) {
  if (hold.expiry) expiry_.Cancel(*std::exchange(hold.expiry, std::nullopt));
  watchdog_.Forget(hold);
}

void ServiceCore::End(ServiceHold& hold, Instant now) {
  StopTime(hold);
  hold.SetLeasedUntil(Instant::InfinitePast());
  hold.watched = 0;
  held_.fetch_sub(1, std::memory_order_relaxed);
  metrics_.ObserveSpan(kServiceHoldSeconds, hold.began, now);
}

bool ServiceCore::Valid(const LeaseState& lease) {
  fork_guard_.Check("LockLease", lease.hold->key.name);
  return !lease.released.load(std::memory_order_relaxed) && StillHeld(lease.hold);
}

bool ServiceCore::StillHeld(const std::shared_ptr<ServiceHold>& hold, LossLog* told) {
  return hold != nullptr && StillHeldAt(options_.clock->Now(), hold, told);
}

bool ServiceCore::StillHeldAt(Instant now, const std::shared_ptr<ServiceHold>& hold, LossLog* told) {
  if (now < hold->ValidUntil()) return true;
  Lose(hold, LossReason::kExpired, told);
  return hold->InTime();  // True if it was renewed between the two checks.
}

bool ServiceCore::Lose(const std::shared_ptr<ServiceHold>& hold, LossReason reason, LossLog* told) {
  std::vector<std::shared_ptr<LeaseState>> leases;
  {
    const MutexLock lock(hold->mutex);
    if (hold->leases.empty()) return false;
    if (reason == LossReason::kExpired && hold->InTime()) return false;
    hold->loss = reason;
    leases = std::exchange(hold->leases, {});
    End(*hold, options_.clock->Now());
  }
  HoldRecord& record = *leases.front()->record;
  {
    const MutexLock lock(record.mutex);
    if (record.hold == hold) record.hold = nullptr;
  }
  if (reason == LossReason::kExpired || reason == LossReason::kGone) {
    metrics_.Add(reason == LossReason::kExpired ? kServiceLostExpired : kServiceLostGone);
    LossLog alone(options_.name);
    (told != nullptr ? *told : alone).Add(hold->key, reason, leases.back()->token);
  }
  Schedule([leases = std::move(leases)] {
    for (const std::shared_ptr<LeaseState>& lease : leases) lease->TellLost();
  });
  return true;
}

// A lease on its way from MarkReleased() to the engine's answer.
struct ServiceCore::Leaving {
  LeaseState* lease = nullptr;
  bool marked = false;     // By this call. False: it had been released.
  bool has_steps = false;  // Of its record.
  bool send = false;       // False: the engine gets the release in the background.
  Instant lapses = {};
  LockRelease step = {};
  absl::Status status = absl::OkStatus();
};

absl::Status ServiceCore::Release(LeaseState& lease) {
  LeaseState* const one[] = {&lease};
  return ReleaseWithin(one, options_.engine_timeout, /*wait_for_silent_engine=*/true);
}

absl::Status ServiceCore::ReleaseOnce(LeaseState& lease) {
  LeaseState* const one[] = {&lease};
  return ReleaseWithin(one, options_.engine_timeout, /*wait_for_silent_engine=*/false);
}

absl::Status ServiceCore::ReleaseMany(std::span<LockLease* const> leases) {
  const Instant began = Clock::System()->Now();
  absl::Duration longest = absl::ZeroDuration();
  for (const LockLease* lease : leases) {
    if (lease->state_ == nullptr) continue;
    longest = std::max<absl::Duration>(longest, lease->state_->core->options_.engine_timeout);
  }
  absl::Status first;
  for (size_t i = 0; i < leases.size();) {
    if (leases[i]->state_ == nullptr) {
      first.Update(leases[i++]->Release());
      continue;
    }
    ServiceCore& core = *leases[i]->state_->core;
    std::vector<LeaseState*> together;
    while (i < leases.size() && leases[i]->state_ != nullptr && leases[i]->state_->core.get() == &core) {
      together.push_back(leases[i++]->state_.get());
    }
    const absl::Duration left = longest - (Clock::System()->Now() - began);
    const absl::Duration timeout = std::clamp<absl::Duration>(left, absl::ZeroDuration(), core.options_.engine_timeout);
    first.Update(core.ReleaseWithin(together, timeout, /*wait_for_silent_engine=*/true));
  }
  return first;
}

// A lease that was acquired without an owner is its thread's, which enters again at once. So where that thread has
// given the lease to another one and has entered again, both are inside.
void ServiceCore::CheckThread(const LeaseState& lease) {
  if (!lease.thread || *lease.thread == std::this_thread::get_id()) return;
  {
    const MutexLock lock(lease.hold->mutex);
    const auto entered_again = [&lease](const std::shared_ptr<LeaseState>& other) {
      return other->entry > lease.entry && other->thread == lease.thread;
    };
    if (std::ranges::none_of(lease.hold->leases, entered_again)) return;
  }
  const std::string what = Concat(ShownLock(lease.hold->key.name),
                                  ": a lease without AcquireOptions::owner is released by another thread than the one "
                                  "that acquired it, which has acquired the lock again: both are inside");
#ifdef NDEBUG
  Log(LogSeverity::kError, what);
#else
  Fatal(what);
#endif
}

absl::Status ServiceCore::ReleaseWithin(std::span<LeaseState* const> leases, absl::Duration timeout,
                                        bool wait_for_silent_engine) {
  fork_guard_.Check("LockLease", leases.front()->hold->key.name);
  std::vector<Leaving> all(leases.size());
  // Before this call is inside: it waits for callbacks, one of which may destroy the service.
  for (size_t i = 0; i < leases.size(); ++i) {
    all[i].lease = leases[i];
    all[i].marked = leases[i]->MarkReleased();
    leases[i]->AwaitTold();
    if (!all[i].marked) all[i].status = ReleasedBefore(*leases[i]);
  }
  const Instant give_up_at = options_.clock->Now() + timeout;
  {
    const Inside inside(*this);
    for (Leaving& one : all) {
      if (!one.marked) continue;
      CheckThread(*one.lease);
      if (!inside.entered()) EndWithService(one);
    }
    if (inside.entered()) EndLeases(all, give_up_at, wait_for_silent_engine);
  }
  absl::Status first;
  for (const Leaving& one : all) {
    if (one.marked) holds_.Unpin(*one.lease->record);
    first.Update(one.status);
  }
  return first;
}

void ServiceCore::EndWithService(Leaving& leaving) {
  const std::shared_ptr<ServiceHold>& hold = leaving.lease->hold;
  Lose(hold, LossReason::kServiceEnded);  // Its record may leave the table before Shutdown() looks there.
  leaving.status = LostError(hold->key, LossReason::kServiceEnded);
}

void ServiceCore::EndLeases(std::span<Leaving> all, Instant give_up_at, bool wait_for_silent_engine) {
  // Losses are reported before this call has any steps, because callbacks may acquire.
  for (const Leaving& one : all) (void)StillHeld(one.lease->hold);
  std::vector<Leaving*> together;
  for (Leaving& one : all) {
    if (!one.marked) continue;
    one.send = wait_for_silent_engine || !engine_silent_.load(std::memory_order_relaxed);
    // Without the steps: an acquire that finds a loss has them while it tells it, and this may be called by what it
    // tells.
    const bool held = StillHeld(one.lease->hold);
    one.has_steps = held && one.lease->record->TryLockSteps();
    if (held && !one.has_steps) {
      SendLeaving(together, give_up_at);  // Nobody waits for steps and has others.
      // Without them the lease ends here, and the engine gets the release behind the step that has them.
      one.has_steps = one.lease->record->LockSteps(*options_.clock, one.send ? give_up_at : options_.clock->Now());
    }
    if (BeginLeaving(one)) {
      together.push_back(&one);
    } else if (one.has_steps) {
      one.lease->record->UnlockSteps();
    }
  }
  SendLeaving(together, give_up_at);
}

void RunReleaseCallback(ReleaseCallback& done, absl::Status status) {
  const absl::Status ran = GuardCallback<absl::Status>("a callback of ReleaseAsync()", [&] {
    done(std::move(status));
    return absl::OkStatus();
  });
  if (!ran.ok()) Log(LogSeverity::kError, std::string(ran.message()));
}

void ServiceCore::ReleaseAsync(const std::shared_ptr<LeaseState>& lease, ReleaseCallback done) {
  fork_guard_.Check("LockLease", lease->hold->key.name);
  if (!lease->MarkReleased()) return TellReleased(*lease, ReleasedBefore(*lease), std::move(done));
  Leaving leaving = {.lease = lease.get(), .marked = true};
  {
    const Inside inside(*this);
    CheckThread(*lease);
    if (inside.entered()) {
      take_back_.Post([this, lease, leaving = std::move(leaving), done = std::move(done)]() mutable {
        // What a silent engine has not got, it gets as a debt: not each of many leases waits for it.
        EndLeases({&leaving, 1}, EngineTimeout(), /*wait_for_silent_engine=*/false);
        holds_.Unpin(*lease->record);
        TellReleased(*lease, std::move(leaving.status), std::move(done));
      });
      return;
    }
    EndWithService(leaving);
  }
  holds_.Unpin(*lease->record);
  TellReleased(*lease, std::move(leaving.status), std::move(done));
}

void ServiceCore::TellReleased(LeaseState& lease, absl::Status status, ReleaseCallback done) {
  if (!done) return;
  Executor::Task tell = [done = std::move(done), status = std::move(status)]() mutable {
    RunReleaseCallback(done, std::move(status));
  };
  if (!lease.RunOnceTold(tell)) Schedule(std::move(tell));
}

bool ServiceCore::BeginLeaving(Leaving& leaving) {
  LeaseState& lease = *leaving.lease;
  const std::shared_ptr<ServiceHold>& hold = lease.hold;
  const Instant now = options_.clock->Now();
  leaving.lapses = hold->LeasedUntil();
  const bool held = StillHeldAt(now, hold);
  {
    const MutexLock lock(hold->mutex);
    if (!held || hold->loss) {
      leaving.status = LostError(hold->key, hold->loss.value_or(LossReason::kExpired));
      return false;
    }
    std::erase_if(hold->leases, [&lease](const auto& other) { return other.get() == &lease; });
    leaving.step = {.hold = hold->key, .keep = static_cast<int64_t>(hold->leases.size()), .sequence = NextSequence()};
    if (leaving.step.keep > 0) {
      if (lease.watched && --hold->watched == 0) {
        watchdog_.Forget(*hold);
        KeepTime(hold);
      }
      return true;
    }
    // Before the release is sent: nothing renews it from here on.
    End(*hold, now);
  }
  HoldRecord& record = *lease.record;
  const MutexLock lock(record.mutex);
  if (record.hold == hold) record.hold = nullptr;
  return true;
}

void ServiceCore::SendLeaving(std::vector<Leaving*>& together, Instant give_up_at) {
  std::vector<Leaving*> open;
  for (Leaving* one : together) {
    one->send = one->send && one->has_steps;
    if (one->send) {
      open.push_back(one);
    } else if (one->has_steps) {
      one->lease->record->UnlockSteps();
    }
  }
  Parker pause(*options_.clock);
  while (!open.empty()) {
    std::vector<LockRelease> steps;
    for (Leaving* one : open) {
      PrepareRelease(one->step, *one->lease->record, give_up_at);
      steps.push_back(one->step);
    }
    engine_->ReleaseMany(steps);
    metrics_.Add(kServiceRoundTrips);
    std::vector<Leaving*> again;
    for (size_t i = 0; i < open.size(); ++i) {
      Leaving& one = *open[i];
      one.step = std::move(steps[i]);
      if (TakeRelease(one.step, one.lease->record, give_up_at)) {
        one.lease->record->UnlockSteps();
      } else {
        again.push_back(&one);
      }
    }
    open = std::move(again);
    if (!open.empty()) pause.Park(std::min(options_.clock->Now() + kReleasePause, give_up_at));
  }
  // Without any steps, because callbacks of losses may acquire.
  for (Leaving* one : together) EndLeaving(*one);
  together.clear();
}

void ServiceCore::EndLeaving(Leaving& leaving) {
  HoldRecord& record = *leaving.lease->record;
  ServiceHold& hold = *leaving.lease->hold;
  leaving.status = leaving.send
                       ? Listed(leaving.step.status)
                       : absl::UnavailableError(Concat(ShownLock(hold.key.name), ": ", engine_->id(),
                                                       " does not answer; the release is tried in the background"));
  if (!leaving.status.ok()) {
    holds_.PinAgain(record);
    take_back_.Add(hold.key, leaving.lease->record, leaving.lapses);
    return;
  }
  if (leaving.step.held) return;
  leaving.status = LostError(hold.key, LossReason::kGone);
  if (leaving.step.keep > 0) {
    Lose(leaving.lease->hold, LossReason::kGone);
    return;
  }
  {
    const MutexLock lock(hold.mutex);
    hold.loss = LossReason::kGone;
  }
  metrics_.Add(kServiceLostGone);
  LossLog(options_.name).Add(hold.key, LossReason::kGone, leaving.lease->token);
}

absl::Status ServiceCore::SendRelease(const HoldKey& key, const std::shared_ptr<HoldRecord>& record, int64_t keep,
                                      Instant give_up_at, bool& held) {
  Parker pause(*options_.clock);
  LockRelease release = {.hold = key, .keep = keep, .sequence = NextSequence()};
  for (;;) {
    PrepareRelease(release, *record, give_up_at);
    engine_->Release(release);
    metrics_.Add(kServiceRoundTrips);
    held = release.held;
    if (TakeRelease(release, record, give_up_at)) return release.status;
    pause.Park(std::min(options_.clock->Now() + kReleasePause, give_up_at));
  }
}

void ServiceCore::PrepareRelease(LockRelease& release, HoldRecord& record, Instant give_up_at) {
  release.repeated = record.unanswered;
  release.timeout = std::max(give_up_at - options_.clock->Now(), absl::Milliseconds(1));
  release.status = absl::OkStatus();
  release.outcome_unknown = false;
}

bool ServiceCore::TakeRelease(LockRelease& release, const std::shared_ptr<HoldRecord>& record, Instant give_up_at) {
  NoteAnswer(release.status);
  if (release.status.ok()) {
    const std::shared_ptr<ServiceHold> rest = release.keep > 0 ? record->CurrentHold() : nullptr;
    if (rest == nullptr) return true;
    const MutexLock lock(rest->mutex);
    rest->newest_step = std::max(rest->newest_step, release.sequence);
    return true;
  }
  metrics_.Add(kServiceEngineErrors);
  if (release.outcome_unknown) {
    release.resent |= !release.repeated;
    NoteUnanswered(record);
  }
  if (!MayPass(release.status)) return true;
  if (options_.clock->Now() >= give_up_at) {
    release.status = absl::UnavailableError(Concat(ShownLock(release.hold.name), ": ", engine_->id(),
                                                   " did not confirm the release in time: ", release.status.message()));
    return true;
  }
  if (absl::IsAborted(release.status)) release.sequence = NextSequence();
  return false;
}

absl::Status ServiceCore::ReleaseAll(absl::Duration timeout) {
  fork_guard_.Check("LockService", options_.name);
  const Inside inside(*this);
  if (!inside.entered()) return Ending();
  const Instant give_up_at = options_.clock->Now() + timeout;
  size_t left = 0;
  absl::Status first;
  for (const std::shared_ptr<ServiceHold>& hold : holds_.All()) {
    std::shared_ptr<HoldRecord> record;
    {
      const MutexLock lock(hold->mutex);
      if (hold->leases.empty()) continue;
      record = hold->leases.front()->record;
      holds_.PinAgain(*record);
    }
    const bool has_steps = record->LockSteps(*options_.clock, give_up_at);
    if (Lose(hold, LossReason::kReleasedAll)) {
      bool held = false;
      const absl::Status sent = has_steps && options_.clock->Now() < give_up_at
                                    ? SendRelease(hold->key, record, 0, give_up_at, held)
                                    : absl::UnavailableError("there was no time left for it");
      left += sent.ok() ? 0 : 1;
      first.Update(sent);
    }
    if (has_steps) record->UnlockSteps();
    holds_.Unpin(*record);
  }
  if (left == 0) return absl::OkStatus();
  return absl::UnavailableError(Concat("ReleaseAll(): ", left, " locks may not be released: ", first.message()));
}

void ServiceCore::NoteUnanswered(const std::shared_ptr<HoldRecord>& record) {
  record->unanswered = true;
  const Instant until = options_.clock->Now() + kLatestArrival;
  {
    const MutexLock lock(record->mutex);
    if (std::exchange(record->kept_until, until)) return;
  }
  holds_.PinAgain(*record);
  KeepUntil(record, until);
}

void ServiceCore::KeepUntil(const std::shared_ptr<HoldRecord>& record, Instant until) {
  expiry_.Schedule(until, [this, record, until] {
    Instant later;
    {
      const MutexLock lock(record->mutex);
      later = *record->kept_until;
      if (later == until) record->kept_until.reset();
    }
    if (later != until) return KeepUntil(record, later);
    holds_.Unpin(*record);
  });
}

void ServiceCore::GiveUp(const HoldKey& key, HoldRecord& record, LockRelease& release, absl::Duration timeout) {
  release.hold = key;
  // Of the twin, too: to the engine it may be the same hold.
  std::shared_ptr<ServiceHold> hold = record.CurrentHold();
  if (!StillHeld(hold)) hold = nullptr;
  if (hold != nullptr) {
    const MutexLock lock(hold->mutex);
    release.keep = static_cast<int64_t>(hold->leases.size());
  }
  release.sequence = NextSequence();
  release.repeated = true;
  release.gives_up = true;
  release.timeout = timeout;
  engine_->Release(release);
  metrics_.Add(kServiceRoundTrips);
  NoteAnswer(release.status);
  if (!release.status.ok()) {
    metrics_.Add(kServiceEngineErrors);
  } else if (hold != nullptr) {
    const MutexLock lock(hold->mutex);
    hold->newest_step = std::max(hold->newest_step, release.sequence);
  }
}

}  // namespace stockade::locks_internal
