#include "stockade/locks/internal/lock_core.h"

#include <chrono>

#include "lock_metrics.h"

namespace stockade::locks_internal {

using std::chrono::steady_clock;

LockCore::LockCore(LockIdentity& identity)
    : acquisitions_(identity.metrics() == nullptr ? nullptr : &identity.metrics()->acquisitions()),
      identity_(identity),
      gate_(key(), identity.fifo()) {}

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

bool LockCore::TryLockSlow(SteadyDeadline deadline) {
  const Reentry reentry = TryReenter(LockMode::kExclusive);
  return reentry == Reentry::kDone || (reentry == Reentry::kNo && AcquireUntil(LockMode::kExclusive, deadline));
}

bool LockCore::TryLockSharedCounted(Hold& hold) {
  if (!gate_.TryEnter(LockMode::kShared)) return false;
  hold.Set(key() + Hold::kCountedRead);
  if (acquisitions_ != nullptr) CountAcquired(hold, LockMode::kShared);
  return true;
}

bool LockCore::TryLockSharedSlow(SteadyDeadline deadline) {
  return TryReenter(LockMode::kShared) == Reentry::kDone || AcquireUntil(LockMode::kShared, deadline);
}

void LockCore::UnlockSlow() {
  identity_.CheckNotForked();
  ThreadRecord& mine = ThreadRecord::Mine();
  Hold* const hold = mine.Find(this);
  if (hold == nullptr || !hold->is_write()) identity_.Die("unlock() by a thread that does not hold it");
  if (hold->writes_beyond() > 0) {
    hold->beyond -= Hold::kOneWrite;
    return;
  }
  if (hold->reads_beyond() > 0) {
    hold->beyond -= Hold::kOneRead;
    return BecomeReader(*hold);
  }
  EndSample(*hold);
  if (hold->is_published()) return hold->Unpublish(0);
  mine.Remove(this, *hold);
  gate_.LeaveExclusive();
}

void LockCore::UnlockSharedSlow() {
  identity_.CheckNotForked();
  ThreadRecord& mine = ThreadRecord::Mine();
  Hold* const hold = mine.Find(this);
  if (hold == nullptr || hold->read_holds() == 0) {
    identity_.Die("unlock_shared() by a thread that does not hold it for reading");
  }
  if (hold->reads_beyond() > 0) {
    hold->beyond -= Hold::kOneRead;
    return;
  }
  EndSample(*hold);
  if (hold->is_published()) return hold->Unpublish(0);
  mine.Remove(this, *hold);
  gate_.LeaveShared();
}

void LockCore::DowngradeHold() {
  identity_.CheckNotForked();
  Hold* const hold = ThreadRecord::Mine().Find(this);
  if (hold == nullptr || !hold->is_write()) identity_.Die("downgrade() by a thread that does not hold it for writing");
  if (hold->writes_beyond() == 0) return BecomeReader(*hold);
  Reenter(*hold, LockMode::kShared);
  hold->beyond -= Hold::kOneWrite;
}

// The tag's hold, for writing, becomes one for reading.
void LockCore::BecomeReader(Hold& hold) {
  const uintptr_t sampled = hold.tag() & Hold::kSampled;
  if (hold.is_published()) {
    gate_.Unfavour(&ThreadRecord::Mine());
    hold.Unpublish(key() + Hold::kWrite + sampled);
  }
  hold.Set(key() + Hold::kCountedRead + sampled);
  gate_.Downgrade();
}

bool LockCore::TryUpgradeHold() {
  identity_.CheckNotForked();
  Hold* const hold = ThreadRecord::Mine().Find(this);
  if (hold == nullptr || hold->read_holds() == 0) {
    identity_.Die("try_upgrade() by a thread that does not hold it for reading");
  }
  if (hold->is_write()) {
    Reenter(*hold, LockMode::kExclusive);
    hold->beyond -= Hold::kOneRead;
    return true;
  }
  if (!gate_.TryUpgrade(hold->is_published(), identity_.metrics())) return false;
  // The tag's hold, for reading, is one for writing now.
  hold->Unpublish(key() + Hold::kWrite + (hold->tag() & Hold::kSampled));
  return true;
}

uint32_t LockCore::write_holds() const {
  identity_.CheckNotForked();
  const Hold* const hold = ThreadRecord::Mine().Find(this);
  return hold == nullptr ? 0 : hold->write_holds();
}

uint32_t LockCore::read_holds() const {
  identity_.CheckNotForked();
  const Hold* const hold = ThreadRecord::Mine().Find(this);
  return hold == nullptr ? 0 : hold->read_holds();
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
  if (mode == LockMode::kExclusive && !hold->is_write()) return Reentry::kRefused;
  Reenter(*hold, mode);
  return Reentry::kDone;
}

bool LockCore::AcquireUntil(LockMode mode, SteadyDeadline deadline) {
  // First without the clock, which only a wait needs.
  if (TryAcquire(mode)) return true;
  if (deadline != kNever && deadline <= steady_clock::now()) deadline = kNoWait;
  if (deadline == kNoWait && !gate_.OnlyPublishedMayBeIn(mode)) return false;
  LockMetrics* const metrics = identity_.metrics();
  const steady_clock::time_point began = metrics == nullptr ? steady_clock::time_point{} : steady_clock::now();
  if (!gate_.Enter(mode, deadline, metrics)) return false;
  BeginHold(mode);
  if (metrics != nullptr) metrics->Waited(mode, steady_clock::now() - began);
  return true;
}

bool LockCore::TryAcquire(LockMode mode) {
  if (mode == LockMode::kShared && TryPublishRead()) return true;
  if (!gate_.TryEnter(mode)) return false;
  BeginHold(mode);
  return true;
}

bool LockCore::TryPublishRead() {
  ThreadRecord& mine = ThreadRecord::Mine();
  Hold& hold = gate_.EntryIn(mine);
  if (!gate_.PublishedReadersAreIn() || hold.lock.load(std::memory_order_relaxed) != 0) return false;
  hold.Publish(key(), Hold::kPublishedRead);
  if (!gate_.PublishedReadersAreIn()) {
    hold.Unpublish(0);
    return false;
  }
  if (acquisitions_ != nullptr) CountAcquired(hold, LockMode::kShared);
  return true;
}

void LockCore::BeginHold(LockMode mode) {
  Hold& hold = ThreadRecord::Mine().Add(this);
  hold.Set(key() + (mode == LockMode::kExclusive ? Hold::kWrite : Hold::kCountedRead));
  if (acquisitions_ != nullptr) CountAcquired(hold, mode);
}

// Publishes first: from the moment in which the word no longer says that this thread is in, its hold must.
void LockCore::AskFavour(ThreadRecord& mine, Hold& hold) {
  hold.Publish(key(), Hold::kPublishedWrite);
  if (!gate_.Favour(&mine)) hold.Unpublish(key() + Hold::kWrite);
}

void LockCore::BeginSample(Hold& hold) {
  hold.Set(hold.lock.load(std::memory_order_relaxed) + Hold::kSampled);
  hold.sampled_since = steady_clock::now();
}

void LockCore::EndSample(Hold& hold) {
  if (hold.is_sampled()) identity_.metrics()->Held(steady_clock::now() - hold.sampled_since);
}

void LockCore::Reenter(Hold& hold, LockMode mode) const {
  const bool write = mode == LockMode::kExclusive;
  if ((write ? hold.writes_beyond() : hold.reads_beyond()) == kMaxHolds - 1) {
    identity_.Die("held 16777216 times by one thread: unbounded recursion");
  }
  hold.beyond += write ? Hold::kOneWrite : Hold::kOneRead;
}

}  // namespace stockade::locks_internal
