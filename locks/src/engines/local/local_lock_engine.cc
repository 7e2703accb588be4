#include "local_lock_engine.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "../../service/shown_lock.h"
#include "absl/status/status.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

constexpr size_t kMinSweep = 64;
constexpr size_t kEndedHolds = 16;
// For a waiter that is not the first though nobody holds the lock: the first one's hint is on its way.
constexpr absl::Duration kBehindWaiter = absl::Milliseconds(100);

std::string NewId() {
  static std::atomic<int64_t> last = 0;
  return Concat("local ", last.fetch_add(1, std::memory_order_relaxed) + 1);
}

// One name's holds are of one of these.
LockKind Family(LockKind kind) { return kind == LockKind::kWrite ? LockKind::kRead : kind; }

absl::Status Overtaken(const HoldKey& hold, uint64_t sequence, uint64_t newest) {
  return absl::AbortedError(
      Concat(ShownLock(hold.name), ": step ", sequence, " arrived after step ", newest, " of owner ", hold.owner));
}

}  // namespace

class LocalLockEngine::LocalWatch final : public LockWatch {
 public:
  LocalWatch(LocalLockEngine* engine, std::shared_ptr<HintListener> listener)
      : engine_(engine), listener_(std::move(listener)) {}

  ~LocalWatch() override {
    Remove();
    listener_->Close();
  }

 private:
  void Remove() {
    const MutexLock lock(engine_->mutex_);
    const std::string& name = listener_->hold().name;
    std::erase(engine_->FindLock(name)->listeners, listener_);
    engine_->Tidy(name);
  }

  LocalLockEngine* const engine_;
  const std::shared_ptr<HintListener> listener_;
};

LocalLockEngine::LocalLockEngine(Clock* clock) : clock_(clock), id_(NewId()), sweep_at_(kMinSweep) {}

LocalLockEngine::~LocalLockEngine() = default;

void LocalLockEngine::TryMany(std::span<LockTry> tries) {
  const Instant now = clock_->Now();
  const MutexLock lock(mutex_);
  for (LockTry& step : tries) Try(step, now);
}

void LocalLockEngine::RenewMany(std::span<LockRenewal> renewals, absl::Duration) {
  const Instant now = clock_->Now();
  const MutexLock guard(mutex_);
  for (LockRenewal& renewal : renewals) {
    renewal.held = false;
    Lock* const lock = FindLock(renewal.hold.name);
    if (lock == nullptr) continue;
    DropLapsed(*lock, now);
    Hold* const held = FindHold(*lock, renewal.hold.kind, renewal.hold.owner);
    if (held != nullptr) {
      held->deadline = std::max(held->deadline, now + renewal.lease);
      renewal.held = true;
    }
    Tidy(renewal.hold.name);
  }
}

void LocalLockEngine::ReleaseMany(std::span<LockRelease> releases) {
  Listeners to_notify;
  {
    const Instant now = clock_->Now();
    const MutexLock lock(mutex_);
    for (LockRelease& release : releases) {
      Lower(release, now, to_notify);
      Tidy(release.hold.name);
    }
  }
  for (const std::shared_ptr<HintListener>& listener : to_notify) listener->Notify();
}

absl::StatusOr<LockState> LocalLockEngine::Inspect(std::string_view name, OwnerId owner, absl::Duration) {
  const Instant now = clock_->Now();
  const MutexLock guard(mutex_);
  LockState state;
  Lock* const lock = FindLock(name);
  if (lock == nullptr) return state;
  DropLapsed(*lock, now);
  state.locked = !lock->holds.empty();
  state.kind = KindOf(*lock);
  for (const Hold& held : lock->holds) {
    state.remaining = std::max(state.remaining, held.deadline - now);
    if (held.owner == owner) state.owner_holds += held.count;
  }
  Tidy(name);
  return state;
}

absl::StatusOr<std::optional<LockKind>> LocalLockEngine::ForceRelease(std::string_view name, absl::Duration) {
  Listeners to_notify;
  std::optional<LockKind> released;
  {
    const Instant now = clock_->Now();
    const MutexLock guard(mutex_);
    Lock* const lock = FindLock(name);
    if (lock == nullptr) return released;
    DropLapsed(*lock, now);
    if (!lock->holds.empty()) {
      released = KindOf(*lock);
      lock->holds.clear();
      to_notify = ListenersOf(*lock);
    }
    Tidy(name);
  }
  for (const std::shared_ptr<HintListener>& listener : to_notify) listener->Notify();
  return released;
}

std::unique_ptr<LockWatch> LocalLockEngine::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  auto listener = std::make_shared<HintListener>(hold, std::move(on_hint));
  {
    const MutexLock lock(mutex_);
    LockOf(hold.name).listeners.push_back(listener);
  }
  auto watch = std::make_unique<LocalWatch>(this, listener);
  listener->Notify();  // For a release between the caller's try and now.
  return watch;
}

size_t LocalLockEngine::names() const {
  const MutexLock lock(mutex_);
  return locks_.size();
}

LocalLockEngine::Lock& LocalLockEngine::LockOf(const std::string& name) {
  if (locks_.size() >= sweep_at_) Sweep(clock_->Now());
  return locks_[name];
}

LocalLockEngine::Lock* LocalLockEngine::FindLock(std::string_view name) {
  const auto found = locks_.find(AbslView(name));
  return found == locks_.end() ? nullptr : &found->second;
}

void LocalLockEngine::Tidy(std::string_view name) {
  const auto found = locks_.find(AbslView(name));
  if (found == locks_.end()) return;
  const Lock& lock = found->second;
  if (lock.holds.empty() && lock.queue.empty() && lock.listeners.empty()) locks_.erase(found);
}

void LocalLockEngine::Sweep(Instant now) {
  absl::erase_if(locks_, [now](Locks::value_type& entry) {
    Lock& lock = entry.second;
    DropLapsed(lock, now);
    return lock.holds.empty() && lock.queue.empty() && lock.listeners.empty();
  });
  sweep_at_ = std::max(kMinSweep, 2 * locks_.size());
}

void LocalLockEngine::DropLapsed(Lock& lock, Instant now) {
  std::erase_if(lock.holds, [now](const Hold& hold) { return hold.deadline <= now; });
}

LockKind LocalLockEngine::KindOf(const Lock& lock) {
  LockKind kind = lock.kind;
  for (const Hold& hold : lock.holds) kind = std::max(kind, hold.kind);
  return kind;
}

LocalLockEngine::Hold* LocalLockEngine::FindHold(Lock& lock, LockKind kind, OwnerId owner) {
  const auto found = std::find_if(lock.holds.begin(), lock.holds.end(),
                                  [&](const Hold& hold) { return hold.kind == kind && hold.owner == owner; });
  return found == lock.holds.end() ? nullptr : &*found;
}

LocalLockEngine::Waiter* LocalLockEngine::FindWaiter(Lock& lock, OwnerId owner) {
  const auto found =
      std::find_if(lock.queue.begin(), lock.queue.end(), [&](const Waiter& waiter) { return waiter.owner == owner; });
  return found == lock.queue.end() ? nullptr : &*found;
}

// The listeners of the waiters that may enter next: those of the first one in the queue, or all if there is no queue.
LocalLockEngine::Listeners LocalLockEngine::ListenersOf(const Lock& lock) {
  if (lock.queue.empty()) return lock.listeners;
  Listeners first;
  for (const std::shared_ptr<HintListener>& listener : lock.listeners) {
    if (listener->hold().owner == lock.queue.front().owner) first.push_back(listener);
  }
  return first;
}

LocalLockEngine::Step LocalLockEngine::NewestStep(Lock& lock, const HoldKey& hold) {
  Step newest;
  const auto see = [&newest](const Step& step) {
    if (step.sequence > newest.sequence) newest = step;
  };
  if (const Hold* const held = FindHold(lock, hold.kind, hold.owner)) see(held->newest);
  if (const Waiter* const waiter = FindWaiter(lock, hold.owner)) see({.sequence = waiter->sequence});
  for (const EndedHold& ended : ended_) {
    if (ended.hold.owner == hold.owner && ended.hold == hold) see(ended.newest);
  }
  return newest;
}

void LocalLockEngine::Remember(const HoldKey& hold, const Step& newest) {
  std::erase_if(ended_, [&](const EndedHold& ended) { return ended.hold.owner == hold.owner && ended.hold == hold; });
  if (ended_.size() == kEndedHolds) ended_.pop_front();
  ended_.push_back({.hold = hold, .newest = newest});
}

void LocalLockEngine::Try(LockTry& step, Instant now) {
  const HoldKey& key = step.hold;
  Lock& lock = LockOf(key.name);
  DropLapsed(lock, now);
  Hold* const held = FindHold(lock, key.kind, key.owner);
  const Step newest = NewestStep(lock, key);
  step.status = absl::OkStatus();
  step.acquired = false;
  if (step.sequence < newest.sequence) {
    step.status = Overtaken(key, step.sequence, newest.sequence);
  } else if (held != nullptr && step.sequence == held->newest.sequence) {
    Answer(step, held->newest);
  } else if ((!lock.holds.empty() || !lock.queue.empty()) && lock.kind != Family(key.kind)) {
    step.status = absl::FailedPreconditionError(Concat(ShownLock(key.name), " is used as a ", LockKindName(lock.kind),
                                                       " lock, not as a ", LockKindName(key.kind), " lock"));
  } else {
    lock.kind = Family(key.kind);
    EnterOrWait(step, lock, held, now);
  }
  if (!step.acquired && step.repeated && step.status.ok()) Remember(key, {.sequence = step.sequence});
  Tidy(key.name);
}

void LocalLockEngine::EnterOrWait(LockTry& step, Lock& lock, Hold* held, Instant now) {
  const HoldKey& key = step.hold;
  Instant free_at = now;
  for (const Hold& other : lock.holds) {
    const bool shared = key.kind == LockKind::kRead && other.kind == LockKind::kRead;
    // What is left of its owner's reading keeps a write out.
    const bool own =
        other.owner == key.owner && (held != nullptr || key.kind == LockKind::kRead || other.kind != LockKind::kRead);
    if (!shared && !own) free_at = std::max(free_at, other.deadline);
  }
  const bool in_turn = held != nullptr || lock.queue.empty() || lock.queue.front().owner == key.owner;
  if (free_at == now && in_turn) {
    Enter(step, lock, held, now);
    return;
  }
  step.retry_after = free_at == now ? kBehindWaiter : free_at - now;
  if (!step.queue) return;
  Waiter* const waiter = FindWaiter(lock, key.owner);
  if (waiter == nullptr) {
    lock.queue.push_back({.owner = key.owner, .sequence = step.sequence});
  } else {
    waiter->sequence = step.sequence;
  }
}

void LocalLockEngine::Enter(LockTry& step, Lock& lock, Hold* held, Instant now) {
  const HoldKey& key = step.hold;
  std::erase_if(lock.queue, [&](const Waiter& waiter) { return waiter.owner == key.owner; });
  if (held == nullptr) held = &lock.holds.emplace_back(Hold{.kind = key.kind, .owner = key.owner});
  ++held->count;
  held->deadline = std::max(held->deadline, now + step.lease);
  held->newest = {.sequence = step.sequence, .hold_count = held->count, .fencing_token = ++last_token_};
  Answer(step, held->newest);
}

void LocalLockEngine::Answer(LockTry& step, const Step& entered) {
  step.acquired = true;
  step.hold_count = entered.hold_count;
  step.fencing_token = entered.fencing_token;
}

void LocalLockEngine::Lower(LockRelease& step, Instant now, Listeners& to_notify) {
  const HoldKey& key = step.hold;
  Lock& lock = LockOf(key.name);
  DropLapsed(lock, now);
  const Step newest = NewestStep(lock, key);
  step.status = absl::OkStatus();
  step.held = false;
  if (step.sequence < newest.sequence) {
    step.status = Overtaken(key, step.sequence, newest.sequence);
    return;
  }
  if (step.sequence == newest.sequence) {
    step.held = newest.held;
    return;
  }
  Hold* const held = FindHold(lock, key.kind, key.owner);
  const bool was_first = !lock.queue.empty() && lock.queue.front().owner == key.owner;
  if (step.gives_up) std::erase_if(lock.queue, [&](const Waiter& waiter) { return waiter.owner == key.owner; });
  step.held = held != nullptr;
  const Step run = {.sequence = step.sequence, .held = step.held};
  if (held != nullptr && step.keep > 0) {
    held->count = step.keep;
    held->newest = run;
    return;
  }
  if (held != nullptr) lock.holds.erase(lock.holds.begin() + (held - lock.holds.data()));
  if (held != nullptr || step.repeated) Remember(key, run);
  const bool opens = lock.holds.empty() || key.kind == LockKind::kWrite;
  if (!was_first && (held == nullptr || !opens)) return;
  const Listeners next = ListenersOf(lock);
  to_notify.insert(to_notify.end(), next.begin(), next.end());
}

}  // namespace stockade::locks_internal
