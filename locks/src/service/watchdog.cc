#include "watchdog.h"

#include <algorithm>

#include "service_core.h"
#include "stockade/base/start_thread.h"

namespace stockade::locks_internal {
namespace {

// A renewal that failed is tried again so often within a lease.
constexpr int kRetriesInALease = 20;
// Renewals due within this part of a lease go along with those that are due now.
constexpr int kTogether = 30;

}  // namespace

absl::Status Watchdog::Start() {
  if (started_.load(std::memory_order_relaxed)) return absl::OkStatus();
  const MutexLock lock(mutex_);
  if (stopping_ || thread_.joinable()) return absl::OkStatus();
  absl::Status started = StartThread(thread_, [this] { Run(); });
  if (started.ok()) started_.store(true, std::memory_order_relaxed);
  return started;
}

void Watchdog::WatchAt(const std::shared_ptr<ServiceHold>& hold, Instant at) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  if (hold->watch_at) schedule_.erase({*hold->watch_at, hold.get()});
  hold->watch_at = at;
  schedule_.emplace(std::pair(at, hold.get()), hold);
  if (at < sleeps_until_) changed_.NotifyOne();
}

void Watchdog::Forget(ServiceHold& hold) {
  std::shared_ptr<ServiceHold> last;  // Declared first: destroyed after the mutex is let go.
  const MutexLock lock(mutex_);
  if (!hold.watch_at) return;
  const auto place = schedule_.find({*hold.watch_at, &hold});
  last = std::move(place->second);
  schedule_.erase(place);
  hold.watch_at.reset();
}

void Watchdog::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::Run() {
  for (;;) {
    const std::vector<Due> due = AwaitDue();
    if (due.empty()) return;
    LookAt(due);
  }
}

std::vector<Watchdog::Due> Watchdog::AwaitDue() {
  Clock& clock = *core_.options().clock;
  std::vector<Due> due;
  const MutexLock lock(mutex_);
  for (;;) {
    if (stopping_) return {};
    const Instant first = schedule_.empty() ? Instant::InfiniteFuture() : schedule_.begin()->first.first;
    if (clock.Now() >= first) break;
    sleeps_until_ = first;
    changed_.WaitUntil(clock, mutex_, first);
  }
  const Instant horizon = clock.Now() + core_.options().watchdog_lease / kTogether;
  while (!schedule_.empty() && schedule_.begin()->first.first <= horizon) {
    const auto place = schedule_.begin();
    place->second->watch_at.reset();
    due.push_back({.hold = std::move(place->second), .at = place->first.first});
    schedule_.erase(place);
  }
  return due;
}

void Watchdog::LookAt(const std::vector<Due>& due) {
  LossLog losses(core_.options().name);
  std::vector<Due> renew;
  for (const Due& one : due) {
    if (!core_.StillHeld(one.hold, &losses)) continue;
    const MutexLock lock(one.hold->mutex);
    if (one.hold->watched > 0) renew.push_back(one);
  }
  if (renew.empty()) return;
  // Reads first: where an engine keeps a lock for the longest of its reads, a write that is renewed after them corrects
  // a time to live that was too long for all.
  std::ranges::stable_partition(renew, [](const Due& one) { return one.hold->key.kind == LockKind::kRead; });
  Renew(renew, losses);
}

void Watchdog::Renew(const std::vector<Due>& holds, LossLog& losses) {
  Clock& clock = *core_.options().clock;
  const absl::Duration lease = core_.options().watchdog_lease;
  const Instant sent = clock.Now();
  std::vector<LockRenewal> renewals(holds.size());
  for (size_t i = 0; i < holds.size(); ++i) {
    // The engine may shorten the time to live to this lease, so it covers a longer lease that the owner also has.
    ServiceHold& hold = *holds[i].hold;
    const MutexLock lock(hold.mutex);
    const absl::Duration longest = core_.LeaseFor(sent, hold.LeasedUntil());
    renewals[i] = {.hold = hold.key, .lease = std::max(lease, longest), .sequence = hold.newest_step};
  }

  for (const Due& one : holds) core_.metrics().Observe(kServiceRenewalDelaySeconds, sent - one.at);
  // So short that what becomes due meanwhile, which has a lease as long, is still in time.
  core_.engine().RenewMany(renewals, std::min<absl::Duration>(core_.options().engine_timeout, lease / 6));
  core_.metrics().Add(kServiceRoundTrips);

  for (size_t i = 0; i < holds.size(); ++i) {
    const std::shared_ptr<ServiceHold>& hold = holds[i].hold;
    const LockRenewal& renewal = renewals[i];
    core_.NoteAnswer(renewal.status);
    if (renewal.status.ok() && !renewal.held) {
      if (core_.Lose(hold, LossReason::kGone, &losses)) core_.metrics().Add(kServiceRenewalsLost);
      continue;
    }
    // Where its time is over by now, an answer does not bring it back: valid() may have been seen to be false.
    if (!core_.StillHeld(hold, &losses)) continue;
    const MutexLock lock(hold->mutex);
    if (hold->watched == 0) continue;  // Released meanwhile, or its last watched lease was.
    if (renewal.status.ok()) {
      hold->SetLeasedUntil(std::max(hold->LeasedUntil(), core_.ValidUntil(sent, renewal.lease)));
      WatchAt(hold, sent + lease / 3);
      core_.metrics().Add(kServiceRenewed);
    } else {
      WatchAt(hold, std::min(clock.Now() + lease / kRetriesInALease, hold->ValidUntil()));
      core_.metrics().Add(kServiceRenewalErrors);
      core_.metrics().Add(kServiceEngineErrors);
    }
  }
}

}  // namespace stockade::locks_internal
