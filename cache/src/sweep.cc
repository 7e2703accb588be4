// Removal of expired entries without requests.
//
// Each store walks over a few slots of its shard if the earliest time at which one of the shard's entries is over has
// passed. A timer walks over all shards, one after another, so that entries also leave a cache in which nothing is
// stored.

#include <algorithm>

#include "shard.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// The time at which a sweep removes the entry.
Instant CacheCore::LeavesAt(const Slot& slot) const {
  const bool may_be_compared = slot.has_value() && previous_asked_.get();
  return may_be_compared ? Instant::InfiniteFuture() : TimesOf(slot).OverAt();
}

void CacheCore::ExpectExpiry(Shard& shard, const Slot& stored, Aftermath& after) {
  const Instant leaves_at = LeavesAt(stored);
  if (leaves_at == Instant::InfiniteFuture()) return;
  shard.walk.over_at = std::min(shard.walk.over_at, leaves_at);
  shard.walk.passed_over_at = std::min(shard.walk.passed_over_at, leaves_at);
  after.stored_mortal = true;
}

// Called with the shard's mutex held.
void CacheCore::SweepSome(Shard& shard, uint32_t slots, Instant now, Aftermath& after) {
  Shard::Walk& walk = shard.walk;
  if (now < walk.over_at) return;
  for (; slots > 0 && walk.next < shard.entries.end(); --slots, ++walk.next) {
    Slot& slot = shard.entries[walk.next];
    if (slot.free()) continue;
    const Instant leaves_at = LeavesAt(slot);
    if (now >= leaves_at) {
      Remove(shard, slot, RemovalCause::kExpired, after);
    } else {
      walk.passed_over_at = std::min(walk.passed_over_at, leaves_at);
    }
  }
  if (walk.next >= shard.entries.end()) walk = {.over_at = walk.passed_over_at};
}

// Schedules a sweep unless one is pending. No mutex is held.
void CacheCore::PlanSweep() {
  if (sweep_interval_ == absl::InfiniteDuration() || sweep_planned_.load(std::memory_order_relaxed)) return;
  if (sweep_planned_.exchange(true, std::memory_order_relaxed)) return;
  const auto sweep = [this, gate = gate_] {
    CallGate::Call inside(*gate, 0);
    if (inside.inside()) Sweep();
  };
  if (!timers_->Start().ok()) {  // No thread: the next store tries again.
    sweep_planned_.store(false, std::memory_order_relaxed);
    return;
  }
  try {
    timers_->Schedule(Now() + sweep_interval_, [this, gate = gate_, sweep, executor = options_.refresh_executor] {
      if (executor == nullptr) return sweep();
      CallGate::Call inside(*gate, 0);
      if (!inside.inside()) return;
      // The pending flag is cleared here and not by the sweep, because an executor may drop the sweep.
      sweep_planned_.store(false, std::memory_order_relaxed);
      try {
        executor->Schedule(sweep);
      } catch (...) {
        LogThrownBy("the refresh_executor, which was to run a sweep,");
        PlanSweep();
      }
    });
  } catch (...) {  // Out of memory: the next store tries again.
    sweep_planned_.store(false, std::memory_order_relaxed);
  }
}

// Clears the pending flag first, so that entries that are stored behind the walk schedule another sweep.
void CacheCore::Sweep() {
  sweep_planned_.store(false, std::memory_order_relaxed);
  const Instant now = Now();
  bool more = false;
  for (size_t index = 0; index < shard_count_;) {
    Shard& shard = shards_[index];
    Aftermath after(*this);
    const ShardLock lock = Lock(shard);
    if (shard.closed) return;
    if (now >= shard.walk.over_at) {
      SweepSome(shard, Shard::kSweptAtOnce, now, after);
    } else {
      more = more || shard.walk.over_at != Instant::InfiniteFuture();
      ++index;
    }
  }
  FlushRetired();
  if (more) PlanSweep();
}

}  // namespace stockade::cache_internal
