#include "stockade/locks/lock_core.h"

#include <chrono>

#include "lock_metrics.h"
#include "thread_holds.h"

namespace stockade::internal {

using std::chrono::steady_clock;

LockCore::~LockCore() {
  // A forked child has a copy of what other threads of its parent held.
  if (!identity_.InForkedChild() && !monitor_.idle()) identity_.Die("destroyed while it is held or waited for");
}

void LockCore::Lock() {
  switch (TryReenter(LockMode::kExclusive)) {
    case Reentry::kDone: return;
    case Reentry::kRefused:
      identity_.Die("lock() by a thread that holds it for reading would wait for itself; use try_upgrade()");
    case Reentry::kNo: AcquireUntil(LockMode::kExclusive, kNever);
  }
}

bool LockCore::TryLock() {
  const Reentry reentry = TryReenter(LockMode::kExclusive);
  return reentry == Reentry::kDone || (reentry == Reentry::kNo && TryAcquire(LockMode::kExclusive));
}

bool LockCore::TryLockUntil(SteadyDeadline deadline) {
  const Reentry reentry = TryReenter(LockMode::kExclusive);
  return reentry == Reentry::kDone || (reentry == Reentry::kNo && AcquireUntil(LockMode::kExclusive, deadline));
}

void LockCore::LockShared() { TryLockSharedUntil(kNever); }

bool LockCore::TryLockShared() {
  return TryReenter(LockMode::kShared) == Reentry::kDone || TryAcquire(LockMode::kShared);
}

bool LockCore::TryLockSharedUntil(SteadyDeadline deadline) {
  return TryReenter(LockMode::kShared) == Reentry::kDone || AcquireUntil(LockMode::kShared, deadline);
}

void LockCore::Unlock() {
  identity_.CheckNotForked();
  Hold* const hold = ThreadHolds::Mine().Find(this);
  if (hold == nullptr || hold->writes == 0) identity_.Die("unlock() by a thread that does not hold it");
  if (--hold->writes > 0) return;
  if (hold->reads > 0) {
    monitor_.Downgrade();
  } else {
    EndHold(*hold, LockMode::kExclusive);
  }
}

void LockCore::UnlockShared() {
  identity_.CheckNotForked();
  Hold* const hold = ThreadHolds::Mine().Find(this);
  if (hold == nullptr || hold->reads == 0) {
    identity_.Die("unlock_shared() by a thread that does not hold it for reading");
  }
  if (--hold->reads == 0 && hold->writes == 0) EndHold(*hold, LockMode::kShared);
}

void LockCore::Downgrade() {
  identity_.CheckNotForked();
  Hold* const hold = ThreadHolds::Mine().Find(this);
  if (hold == nullptr || hold->writes == 0) identity_.Die("downgrade() by a thread that does not hold it for writing");
  CountHold(hold->reads);
  if (--hold->writes == 0) monitor_.Downgrade();
}

bool LockCore::TryUpgrade() {
  identity_.CheckNotForked();
  Hold* const hold = ThreadHolds::Mine().Find(this);
  if (hold == nullptr || hold->reads == 0) identity_.Die("try_upgrade() by a thread that does not hold it for reading");
  if (hold->writes == 0 && !monitor_.TryUpgrade()) return false;
  CountHold(hold->writes);
  --hold->reads;
  return true;
}

uint32_t LockCore::write_holds() const {
  identity_.CheckNotForked();
  const Hold* const hold = ThreadHolds::Mine().Find(this);
  return hold == nullptr ? 0 : hold->writes;
}

uint32_t LockCore::read_holds() const {
  identity_.CheckNotForked();
  const Hold* const hold = ThreadHolds::Mine().Find(this);
  return hold == nullptr ? 0 : hold->reads;
}

uint64_t LockCore::waiters() const {
  identity_.CheckNotForked();
  return monitor_.waiters();
}

// Every way in begins here, so this is also where a forked child is caught.
LockCore::Reentry LockCore::TryReenter(LockMode mode) {
  identity_.CheckNotForked();
  Hold* const hold = ThreadHolds::Mine().Find(this);
  if (hold == nullptr) return Reentry::kNo;
  if (mode == LockMode::kShared) {
    CountHold(hold->reads);
    return Reentry::kDone;
  }
  if (hold->writes == 0) return Reentry::kRefused;
  CountHold(hold->writes);
  return Reentry::kDone;
}

bool LockCore::TryAcquire(LockMode mode) {
  if (!monitor_.TryEnter(mode)) return false;
  LockMetrics* const metrics = identity_.metrics();
  if (metrics != nullptr) metrics->Acquired(mode);
  BeginHold(mode);
  return true;
}

bool LockCore::AcquireUntil(LockMode mode, SteadyDeadline deadline) {
  // First without the clock, which only a wait needs.
  if (TryAcquire(mode)) return true;
  LockMetrics* const metrics = identity_.metrics();
  const steady_clock::time_point began = metrics == nullptr ? steady_clock::time_point{} : steady_clock::now();
  const LockEntry entry = monitor_.Enter(mode, deadline, metrics);
  if (entry == LockEntry::kTimedOut) return false;
  if (metrics != nullptr) {
    entry == LockEntry::kAtOnce ? metrics->Acquired(mode) : metrics->AcquiredAfter(mode, steady_clock::now() - began);
  }
  BeginHold(mode);
  return true;
}

void LockCore::BeginHold(LockMode mode) {
  ThreadHolds& mine = ThreadHolds::Mine();
  Hold& hold = mine.Add(this);
  (mode == LockMode::kExclusive ? hold.writes : hold.reads) = 1;
  if (identity_.metrics() != nullptr && mine.NextIsSampled()) hold.sampled_since = steady_clock::now();
}

void LockCore::EndHold(const Hold& hold, LockMode mode) {
  if (hold.sampled_since != steady_clock::time_point{}) {
    identity_.metrics()->Held(steady_clock::now() - hold.sampled_since);
  }
  ThreadHolds::Mine().Remove(this);
  monitor_.Leave(mode);
}

void LockCore::CountHold(uint32_t& holds) const {
  if (holds == kMaxHolds) identity_.Die("held 16777216 times by one thread: a recursion without an end");
  ++holds;
}

}  // namespace stockade::internal
