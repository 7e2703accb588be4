// How entries come, expire and go, and how the boxes that they leave are freed.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "shard.h"
#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/hazard_row.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {
namespace {

bool Contains(const std::vector<const Box*>& boxes, const Box* box) {
  return std::binary_search(boxes.begin(), boxes.end(), box);
}

// Replaces the pins of `boxes`, which are sorted and have a share each, by shares for the owners of the pins. Repeats
// this while another thread does the same for one of the pins.
void HandOver(const std::vector<const Box*>& boxes) {
  for (bool contended = true; contended;) {
    contended = false;
    std::vector<std::pair<HazardRow::Pin*, const Box*>> offers;
    for (HazardRow& row : HazardRows()) {
      for (HazardRow::Pin& pin : row.pins) {
        const auto* const box = static_cast<const Box*>(pin.object.load(std::memory_order_seq_cst));
        if (box == nullptr || !Contains(boxes, box) || HazardRow::IsHandedOver(pin, box)) continue;
        box->Share();
        if (HazardRow::Offer(pin, box)) {
          offers.emplace_back(&pin, box);
        } else {
          box->Unshare();
          contended = true;
        }
      }
    }
    if (!offers.empty()) HeavyFence();
    for (const auto& [pin, box] : offers) {
      const HazardRow::Offered offered = HazardRow::Confirm(*pin, box);
      if (offered == HazardRow::Offered::kTakenBack) box->Unshare();
      contended = contended || offered == HazardRow::Offered::kUnknown;
    }
    if (contended) std::this_thread::yield();
  }
}

// Calls `plan` unless its task is pending. If there is no thread (false) or no memory for the task, the next call tries
// again.
template <typename Plan>
void PlanOnce(std::atomic<bool>& planned, const Plan& plan) noexcept {
  if (planned.load(std::memory_order_relaxed) || planned.exchange(true, std::memory_order_relaxed)) return;
  bool done = false;
  try {
    done = plan();
  } catch (...) {
    done = false;
  }
  if (!done) planned.store(false, std::memory_order_relaxed);
}

}  // namespace

bool CacheCore::TryFindEntry(const KeyAt& at, Slot*& entry) noexcept {
  try {
    entry = FindEntry(at);
    return true;
  } catch (...) {
    LogThrown("an entry is not found");
    return false;
  }
}

Slot* CacheCore::FindValue(const KeyAt& at) noexcept {
  Slot* entry = nullptr;
  return TryFindEntry(at, entry) && entry != nullptr && entry->has_value() ? entry : nullptr;
}

// Returns null if the value is not to be stored or the copy of the key throws. Runs the weigher, so no mutex may be
// held.
EntryPtr CacheCore::MakeEntry(const KeyAt& at, const Loaded& loaded, Instant now) noexcept {
  try {
    std::optional<EntryTimes> times = loaded.times;
    if (!times.has_value()) times = freshness_.OfValue(now, loaded.entry.ttl, loaded.took);
    if (!times.has_value()) return nullptr;
    times->KeepUntil(loaded.kept_until);
    const Pinned& value = *loaded.answer;
    const std::optional<int64_t> weight = WeightOf(at, value.raw());
    if (!weight.has_value() || *weight > options_.max_weight) return nullptr;
    return std::make_unique<NewEntry>(
        NewEntry{value.raw(), BoxFor(at.key, value), *weight, times->QuietUntil(),
                 EntryExtra::For(*times, loaded.entry.tags, absl::OkStatus(), loaded.stamp)});
  } catch (...) {
    LogThrown("a value is not stored");
    return nullptr;
  }
}

// For a NotFoundError, or for another error that is to be cached. Returns null in the same cases as MakeEntry().
EntryPtr CacheCore::MakeAbsence(const KeyAt& at, const Loaded& loaded, Instant now) noexcept {
  try {
    const absl::Status& absence = loaded.answer.status();
    std::optional<EntryTimes> times = loaded.times;
    if (!times.has_value()) {
      times = absl::IsNotFound(absence) ? freshness_.OfAbsence(now, loaded.entry.ttl)
                                        : freshness_.OfError(now, loaded.entry.ttl);
    }
    if (!times.has_value() || options_.negative_weight > options_.max_weight) return nullptr;
    times->KeepUntil(loaded.kept_until);
    return std::make_unique<NewEntry>(NewEntry{nullptr, BoxFor(at.key, nullptr), options_.negative_weight,
                                               Instant::InfinitePast(),
                                               EntryExtra::For(*times, loaded.entry.tags, absence, loaded.stamp)});
  } catch (...) {
    LogThrown("an absence or an error is not cached");
    return nullptr;
  }
}

std::optional<int64_t> CacheCore::WeightOf(const KeyAt& at, const void* value) const {
  if (!has_.weigh) return 1;
  const auto weight = GuardCallback<absl::StatusOr<int64_t>>(
      weigher_label_, [&]() -> absl::StatusOr<int64_t> { return Weigh(at.key, value); });
  if (weight.ok()) return std::max<int64_t>(*weight, 1);
  Log(LogSeverity::kError, Concat(weight.status().message(), "; the value is not stored"));
  return std::nullopt;
}

EntryTimes CacheCore::TimesOf(const Slot& slot) const {
  return slot.extra != nullptr ? slot.extra->times : freshness_.Of(slot.quiet_until.load(std::memory_order_relaxed));
}

// The same, to be changed.
EntryTimes& CacheCore::KeptTimesOf(Slot& slot) {
  if (slot.extra == nullptr) slot.extra = std::make_unique<EntryExtra>(TimesOf(slot));
  return slot.extra->times;
}

// Replaces the key's entry, `old` or null, by `fresh`, which may be null. Returns the stored entry, or null. `cause` is
// the cause for an entry that has not expired. `renews`: the value of `old` is stored again, so it does not leave the
// cache. Without memory, nothing is stored.
const Slot* CacheCore::Replace(const KeyAt& at, Slot* old, NewEntry* fresh, RemovalCause cause, bool renews,
                               Aftermath& after, Instant now) {
  Shard& shard = shards_[at.shard];
  if (old != nullptr && now >= old->expires_at()) cause = RemovalCause::kExpired;
  if (fresh == nullptr) {
    if (old != nullptr) Remove(shard, *old, cause, after);
    return nullptr;
  }
  if (old == nullptr) return Insert(at, *fresh, after, now);
  if (fresh->extra != nullptr) {
    try {
      shard.entries.AddTags(*old, *fresh->extra);
    } catch (const std::bad_alloc&) {
      LogThrown("a value is not stored");
      Remove(shard, *old, cause, after);
      return nullptr;
    }
  }
  if (!renews) ReportLeaving(*old, cause, after);
  const int64_t weight = old->weight;
  if (fresh->weight != weight) {
    AddEntries(0, fresh->weight - weight);
    shard.entries.Reweigh(*old, fresh->weight);
  }
  if (old->extra != nullptr || fresh->extra != nullptr) shard.entries.SetExtra(*old, std::move(fresh->extra));
  Retire(shard, Write(*old, nullptr, fresh), weight, after);
  ExpectExpiry(shard, *old, after);
  SweepSome(shard, Shard::kSweptByStore, now, after);
  return old->free() ? nullptr : old;
}

// Whether a shard makes room for a new entry by evicting one of its own: then the weight that all shards share often
// does not change. In a cache with few entries per shard the shards take turns (Trim()), because an entry that a small
// shard evicts may be far from the least useful one of the cache.
inline bool CacheCore::EvictsItsOwn(const EntryTable& entries, int64_t weight) const {
  constexpr size_t kMany = 1000;
  return weight_.load(std::memory_order_relaxed) + weight > options_.max_weight && entries.size() >= kMany &&
         entries.weight() >= full_shard_;
}

// Gives the slot of a victim to a new entry that has neither a box nor other parts. No cache with a box, a listener or
// an expiry calls this, so nothing is left to be done after the mutex is released.
bool CacheCore::TryReplaceVictim(EntryTable& entries, const KeyAt& at, NewEntry& fresh) {
  if (!EvictsItsOwn(entries, fresh.weight)) return false;
  const int64_t weight = entries.weight();
  Write(entries.ReplaceVictim(at.hash, fresh.weight), at.key, &fresh);
  AddEntries(0, entries.weight() - weight);
  Count(kEvictionSize);
  return true;
}

// The key has no entry.
const Slot* CacheCore::Insert(const KeyAt& at, NewEntry& fresh, Aftermath& after, Instant now) {
  Shard& shard = shards_[at.shard];
  EntryTable& entries = shard.entries;
  int64_t count = 1;
  int64_t weight = fresh.weight;
  if (EvictsItsOwn(entries, weight)) {
    const uint32_t victim = entries.Evict(nullptr);
    weight -= entries[victim].weight;
    --count;
    Leave(shard, victim, VictimsCause(entries[victim], now), after);
  }
  Slot* stored = nullptr;
  try {
    stored = &entries.Insert(at.hash, fresh.weight, std::move(fresh.extra), this,
                             [&](Slot& slot) { Write(slot, at.key, &fresh); });
  } catch (const std::bad_alloc&) {
    LogThrown("a value is not stored");
    --count;
    weight -= fresh.weight;
  }
  AddEntries(count, weight);
  if (stored == nullptr) return nullptr;
  ExpectExpiry(shard, *stored, after);
  SweepSome(shard, Shard::kSweptByStore, now, after);
  return stored->free() ? nullptr : stored;
}

void CacheCore::Remove(Shard& shard, Slot& slot, RemovalCause cause, Aftermath& after) {
  AddEntries(-1, -slot.weight);
  Leave(shard, shard.entries.Unlink(slot), cause, after);
}

inline RemovalCause CacheCore::VictimsCause(const Slot& victim, Instant now) const {
  return now < victim.expires_at() ? RemovalCause::kSize : RemovalCause::kExpired;
}

inline void CacheCore::ReportLeaving(const Slot& slot, RemovalCause cause, Aftermath& after) {
  CountRemoval(cause);
  if (has_.on_removal && slot.has_value()) after.removed.push_back(RemovalOf(slot, cause));
}

// The slot is out of its queue.
void CacheCore::Leave(Shard& shard, uint32_t id, RemovalCause cause, Aftermath& after) {
  Slot& slot = shard.entries[id];
  const int64_t weight = slot.weight;
  ReportLeaving(slot, cause, after);
  const Box* box = nullptr;
  shard.entries.Free(id, [&] { box = Write(slot, nullptr, nullptr); });
  Retire(shard, box, weight, after);
}

// Evicts until the weight is within its bound; no mutex is held. `spared` was just stored and is evicted last. It may
// not exist any more, so only its address is used. The shards take turns, so evicted entries are close to the least
// recently used ones.
void CacheCore::Trim(const Slot* spared, Aftermath& after) {
  const auto exceeds = [this] { return weight_.load(std::memory_order_relaxed) > options_.max_weight; };
  if (!exceeds()) return;
  const Instant now = Now();
  size_t shard = 0;
  for (size_t in_vain = 0; exceeds() && in_vain < shard_count_;) {
    // After a shard without a victim comes the next one, whatever other threads have drawn meanwhile, so that none is
    // left out.
    shard = in_vain == 0 ? next_victim_.fetch_add(1, std::memory_order_relaxed) : shard + 1;
    in_vain = EvictOne(shard & shard_mask_, spared, now, after) ? 0 : in_vain + 1;
  }
}

bool CacheCore::EvictOne(size_t index, const Slot* spared, Instant now, Aftermath& after) {
  Shard& shard = shards_[index];
  const ShardLock lock = Lock(shard);
  const uint32_t victim = shard.entries.Evict(spared);
  if (victim == 0) return false;
  AddEntries(-1, -shard.entries[victim].weight);
  Leave(shard, victim, VictimsCause(shard.entries[victim], now), after);
  return true;
}

// Boxes that have left their slots are freed when no hit reads them any more, in batches, which share the cost of a
// HeavyFence(). A shard keeps its batch (Shard::Retired). A batch that no later store frees is freed within 100 ms by a
// thread that all caches of the process share. Of each batch, one box per thread may stay, which the thread was
// reading. After the batch of a pinned value was freed, its handles own it: each has a share.

// With the shard's mutex held. With a clock other than the system clock, boxes are freed at once, so that a test with a
// ManualClock sees when values are destroyed.
void CacheCore::Retire(Shard& shard, const Box* box, int64_t weight, Aftermath& after) {
  if (box == nullptr) return;
  Shard::Retired& retired = shard.retired;
  retired.boxes.push_back(box);
  retired.bytes += box->bytes();
  retired.weight += weight;
  if (options_.clock == Clock::System()) {
    const Instant tick = options_.clock->CoarseNow();
    const int64_t share = static_cast<int64_t>(shard_count_) * Shard::Retired::kWeightPart;
    const bool waits = tick == retired.freed_at && retired.boxes.size() < Shard::Retired::kMostBoxes &&
                       retired.bytes < Shard::Retired::kMostBytes && retired.weight <= options_.max_weight / share;
    if (waits) {
      after.retired = true;
      return;
    }
    retired.freed_at = tick;
  }
  after.boxes.insert(after.boxes.end(), retired.boxes.begin(), retired.boxes.end());
  retired.Clear();
}

// Gives back a share of each box. Runs destructors of keys and values, so no mutex may be held.
void CacheCore::FreeBoxes(std::vector<const Box*> boxes) noexcept {
  if (boxes.empty()) return;
  std::sort(boxes.begin(), boxes.end());
  HeavyFence();
  // Before the pins: a value that is no longer being read has its pin by then.
  std::vector<const Box*> read;
  for (const HazardRow& row : HazardRows()) {
    const auto* const reads = static_cast<const Box*>(row.reads.load(std::memory_order_seq_cst));
    if (reads != nullptr && Contains(boxes, reads)) read.push_back(reads);
  }
  HandOver(boxes);
  std::sort(read.begin(), read.end());
  // A box that was stored again may be in the batch more than once.
  const auto kept = std::partition(boxes.begin(), boxes.end(), [&](const Box* box) { return !Contains(read, box); });
  if (kept != boxes.end()) {
    const ShardLock lock = Lock(shards_[0]);
    shards_[0].retired.boxes.insert(shards_[0].retired.boxes.end(), kept, boxes.end());
  }
  for (const Box* const box : std::span(boxes.begin(), kept)) box->Unshare();
  if (!read.empty() && options_.clock == Clock::System()) PlanReclaim();
}

// Frees what waits in all shards.
void CacheCore::FlushRetired() noexcept {
  std::vector<const Box*> boxes;
  for (size_t index = 0; index < shard_count_; ++index) {
    const ShardLock lock = Lock(shards_[index]);
    Shard::Retired& retired = shards_[index].retired;
    boxes.insert(boxes.end(), retired.boxes.begin(), retired.boxes.end());
    retired.Clear();
  }
  FreeBoxes(std::move(boxes));
}

void CacheCore::PlanReclaim() noexcept {
  PlanOnce(reclaim_planned_, [&] {
    const auto reclaim = [this, gate = gate_] {
      CallGate::Call inside(*gate, 0);
      if (!inside.inside()) return;
      reclaim_planned_.store(false, std::memory_order_relaxed);  // First: later boxes plan another reclaim.
      FlushRetired();
    };
    return ScheduleReclaim(reclaim).ok();
  });
}

// Entries that the calling thread has removed while the listener runs for another entry. A listener that removes
// entries adds to this list instead of nesting, so that a chain of removals cannot exhaust the stack.
struct CacheCore::Notices {
  const CacheCore* core;
  std::vector<Removal> pending;
  Notices* outer;  // Of another cache.

  static inline constinit thread_local Notices* innermost = nullptr;

  static Notices* Of(const CacheCore* core) {
    Notices* notices = innermost;
    while (notices != nullptr && notices->core != core) notices = notices->outer;
    return notices;
  }
};

// Invokes the listener. No mutex is held.
void CacheCore::Notify(std::vector<Removal> removed) {
  if (Notices* const notices = Notices::Of(this); notices != nullptr) {
    std::move(removed.begin(), removed.end(), std::back_inserter(notices->pending));
    return;
  }
  Notices notices{this, std::move(removed), Notices::innermost};
  Notices::innermost = &notices;
  while (!notices.pending.empty()) {
    for (const Removal& removal : std::exchange(notices.pending, {})) {
      const absl::Status status = GuardCallback<absl::Status>(listener_label_, [&] {
        TellRemoval(removal);
        return absl::OkStatus();
      });
      if (!status.ok()) Log(LogSeverity::kError, Concat(status.message()));
    }
  }
  Notices::innermost = notices.outer;
}

// Runs `body`, and returns the removals that the listener is to be notified of.
std::vector<Removal> CacheCore::RemovalsBy(absl::FunctionRef<void()> body) {
  Notices notices{this, {}, Notices::innermost};
  Notices::innermost = &notices;
  body();
  Notices::innermost = notices.outer;
  return std::move(notices.pending);
}

void CacheCore::CheckNotInListener() const {
  if (Notices::Of(this) != nullptr) DestroyedFromWithin("listener");
}

// Sweeps remove expired entries without requests. Each store walks over a few slots of its shard if the earliest time
// at which one of the shard's entries is over has passed. A timer walks over all shards, one after another, so that
// entries also leave a cache in which nothing is stored.

// The time at which a sweep removes the entry.
Instant CacheCore::LeavesAt(const Slot& slot) const {
  const bool may_be_compared = slot.has_value() && previous_asked_.get();
  return may_be_compared ? Instant::InfiniteFuture() : TimesOf(slot).OverAt();
}

inline void CacheCore::ExpectExpiry(Shard& shard, const Slot& stored, Aftermath& after) {
  if (stored.expires_at() == Instant::InfiniteFuture()) return;
  const Instant leaves_at = LeavesAt(stored);
  if (leaves_at == Instant::InfiniteFuture()) return;
  shard.walk.over_at = std::min(shard.walk.over_at, leaves_at);
  shard.walk.passed_over_at = std::min(shard.walk.passed_over_at, leaves_at);
  after.stored_mortal = true;
}

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

// No mutex is held.
void CacheCore::PlanSweep() {
  if (sweep_interval_ == absl::InfiniteDuration()) return;
  PlanOnce(sweep_planned_, [&] {
    if (!timers_->Start().ok()) return false;
    const auto sweep = [this, gate = gate_] {
      CallGate::Call inside(*gate, 0);
      if (inside.inside()) Sweep();
    };
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
    return true;
  });
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
