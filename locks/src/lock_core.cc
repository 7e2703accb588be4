#include "stockade/locks/lock_core.h"

#include <chrono>

#include "lock_metrics.h"

namespace stockade::internal {

using std::chrono::steady_clock;

LockCore::~LockCore() {
  // A forked child has a copy of what other threads of its parent held.
  if (!identity_.InForkedChild() && !gate_.idle()) identity_.Die("destroyed while it is held or waited for");
}

void LockCore::LockSlow() {
  switch (TryReenter(LockMode::kExclusive)) {
    case Reentry::kDone: return;
    case Reentry::kRefused:
      identity_.Die("lock() by a thread that holds it for reading would wait for itself; use try_upgrade()");
    case Reentry::kNo: AcquireUntil(LockMode::kExclusive, kNever);
  }
}

bool LockCore::TryLockUntil(SteadyDeadline deadline) {
  const Reentry reentry = TryReenter(LockMode::kExclusive);
  return reentry == Reentry::kDone || (reentry == Reentry::kNo && AcquireUntil(LockMode::kExclusive, deadline));
}

bool LockCore::TryLockSharedCounted(Hold& hold) {
  if (!gate_.TryEnter(LockMode::kShared)) return false;
  hold.reads = 1;
  hold.lock.store(gate_.key(), std::memory_order_release);
  if (metrics_ != nullptr) CountAcquired(hold, LockMode::kShared);
  return true;
}

bool LockCore::TryLockSharedSlow(SteadyDeadline deadline) {
  return TryReenter(LockMode::kShared) == Reentry::kDone || AcquireUntil(LockMode::kShared, deadline);
}

void LockCore::UnlockSlow() {
  identity_.CheckNotForked();
  ThreadRecord& mine = ThreadRecord::Mine();
  Hold* const hold = mine.Find(this);
  if (hold == nullptr || hold->writes == 0) identity_.Die("unlock() by a thread that does not hold it");
  if (--hold->writes > 0) return;
  if (hold->reads > 0) {
    gate_.Downgrade();
    return;
  }
  EndSample(*hold);
  mine.Remove(this, *hold);
  gate_.LeaveExclusive();
}

void LockCore::UnlockSharedSlow() {
  identity_.CheckNotForked();
  ThreadRecord& mine = ThreadRecord::Mine();
  Hold* const hold = mine.Find(this);
  if (hold == nullptr || hold->reads == 0) {
    identity_.Die("unlock_shared() by a thread that does not hold it for reading");
  }
  if (--hold->reads > 0 || hold->writes > 0) return;
  EndSample(*hold);
  if (hold->IsPublished()) {
    hold->Unpublish();
  } else {
    mine.Remove(this, *hold);
    gate_.LeaveShared();
  }
}

void LockCore::Downgrade() {
  identity_.CheckNotForked();
  Hold* const hold = ThreadRecord::Mine().Find(this);
  if (hold == nullptr || hold->writes == 0) identity_.Die("downgrade() by a thread that does not hold it for writing");
  CountHold(hold->reads);
  if (--hold->writes == 0) gate_.Downgrade();
}

bool LockCore::TryUpgrade() {
  identity_.CheckNotForked();
  Hold* const hold = ThreadRecord::Mine().Find(this);
  if (hold == nullptr || hold->reads == 0) identity_.Die("try_upgrade() by a thread that does not hold it for reading");
  if (hold->writes == 0) {
    const bool published = hold->IsPublished();
    if (!gate_.TryUpgrade(!published, metrics_)) return false;
    if (published) hold->Unpublish(gate_.key());
  }
  CountHold(hold->writes);
  --hold->reads;
  return true;
}

uint32_t LockCore::write_holds() const {
  identity_.CheckNotForked();
  const Hold* const hold = ThreadRecord::Mine().Find(this);
  return hold == nullptr ? 0 : hold->writes;
}

uint32_t LockCore::read_holds() const {
  identity_.CheckNotForked();
  const Hold* const hold = ThreadRecord::Mine().Find(this);
  return hold == nullptr ? 0 : hold->reads;
}

uint64_t LockCore::waiters() const {
  identity_.CheckNotForked();
  return gate_.waiters();
}

// Every slow way in begins here, so this is also where a forked child is caught.
LockCore::Reentry LockCore::TryReenter(LockMode mode) {
  identity_.CheckNotForked();
  Hold* const hold = ThreadRecord::Mine().Find(this);
  if (hold == nullptr) return Reentry::kNo;
  if (mode == LockMode::kShared) {
    CountHold(hold->reads);
    return Reentry::kDone;
  }
  if (hold->writes == 0) return Reentry::kRefused;
  CountHold(hold->writes);
  return Reentry::kDone;
}

bool LockCore::AcquireUntil(LockMode mode, SteadyDeadline deadline) {
  // First without the clock, which only a wait needs.
  if (gate_.TryEnter(mode)) {
    Hold& hold = BeginHold(mode);
    if (metrics_ != nullptr) CountAcquired(hold, mode);
    return true;
  }
  if (deadline == AccessGate::kNoWait && !gate_.OnlyPublishedReadersMayBeIn(mode)) return false;
  const steady_clock::time_point began = metrics_ == nullptr ? steady_clock::time_point{} : steady_clock::now();
  if (!gate_.Enter(mode, deadline, metrics_)) return false;
  Hold& hold = BeginHold(mode);
  if (metrics_ != nullptr) {
    const steady_clock::time_point now = steady_clock::now();
    metrics_->AcquiredAfter(mode, now - began);
    if (ThreadRecord::Mine().NextIsSampled()) hold.sampled_since = now;
  }
  return true;
}

Hold& LockCore::BeginHold(LockMode mode) {
  Hold& hold = ThreadRecord::Mine().Add(this);
  (mode == LockMode::kExclusive ? hold.writes : hold.reads) = 1;
  return hold;
}

void LockCore::CountAcquired(Hold& hold, LockMode mode) {
  metrics_->Acquired(mode);
  if (ThreadRecord::Mine().NextIsSampled()) hold.sampled_since = steady_clock::now();
}

void LockCore::EndSample(Hold& hold) const {
  if (!hold.IsSampled()) return;
  metrics_->Held(steady_clock::now() - hold.sampled_since);
  hold.sampled_since = {};
}

void LockCore::CountHold(uint32_t& holds) const {
  if (holds == kMaxHolds) identity_.Die("held 16777216 times by one thread: a recursion without an end");
  ++holds;
}

}  // namespace stockade::internal
