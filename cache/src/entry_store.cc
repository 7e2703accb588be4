// How entries come, expire and go, and how the boxes that they leave are freed.

#include "stockade/cache/internal/entry_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <bitset>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "shard.h"
#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/cpu_relax.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/hazard_row.h"
#include "stockade/base/log.h"

namespace stockade::cache_internal {
namespace {

// Boxes are freed without memory, so they are, and their pins, in arrays: so many at once.
constexpr size_t kFreedAtOnce = 256;
constexpr size_t kOfferedAtOnce = 64;

constexpr absl::Duration kSystemSweepInterval = absl::Minutes(1);
constexpr absl::Duration kReclaimDelay = absl::Milliseconds(50);

// Sorted.
using Boxes = std::span<const Box* const>;

// The place of `box`, which need not exist any more; boxes.size(): it is not among them.
size_t PlaceOf(const void* box, Boxes boxes) {
  const auto found = std::lower_bound(boxes.begin(), boxes.end(), static_cast<const Box*>(box));
  return static_cast<size_t>((found != boxes.end() && *found == box ? found : boxes.end()) - boxes.begin());
}

// Replaces the pins of `boxes`, which have a share each, by shares for the owners of the pins. Repeats this while
// another thread does the same for one of the pins, or if there are more pins than offers.
void HandOver(Boxes boxes) {
  for (bool more = true; more;) {
    bool contended = false;
    std::array<std::pair<HazardRow::Pin*, const Box*>, kOfferedAtOnce> offers;
    size_t offered = 0;
    more = false;
    for (HazardRow& row : HazardRows()) {
      for (HazardRow::Pin& pin : row.pins) {
        const auto* const box = static_cast<const Box*>(pin.object.load(std::memory_order_seq_cst));
        if (box == nullptr || PlaceOf(box, boxes) == boxes.size() || HazardRow::IsHandedOver(pin, box)) continue;
        if (offered == offers.size()) {
          more = true;
          continue;
        }
        box->Share();
        if (HazardRow::Offer(pin, box)) {
          offers[offered++] = {&pin, box};
        } else {
          box->Unshare();
          contended = true;
        }
      }
    }
    if (offered > 0) HeavyFence();
    for (const auto& [pin, box] : std::span(offers).first(offered)) {
      const HazardRow::Offered offer = HazardRow::Confirm(*pin, box);
      if (offer == HazardRow::Offered::kTakenBack) box->Unshare();
      contended = contended || offer == HazardRow::Offered::kUnknown;
    }
    if (contended) std::this_thread::yield();
    more = more || contended;
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

EntryStore::EntryStore(LoadingCacheOptions&& options, Has has, Slab::Type slots)
    : CacheBase(std::move(options), has),
      weigher_label_(Concat("the weigher of ", Named(""))),
      listener_label_(Concat("the removal listener of ", Named(""))),
      freshness_(options_),
      idle_(options_.idle_ttl),
      shard_count_(
          std::clamp<size_t>(std::bit_floor(static_cast<uint64_t>(options_.max_weight) / 64), 1, CallGate::kStripes)),
      shard_mask_(shard_count_ - 1),
      full_share_(0.9 / static_cast<double>(shard_count_)),
      indexes_(std::make_unique<EntryIndex[]>(shard_count_)),
      shards_(std::make_unique<Shard[]>(shard_count_)),
      sweep_interval_(options_.sweep_interval.value_or(options_.clock == Clock::System() ? kSystemSweepInterval
                                                                                         : absl::InfiniteDuration())) {
  for (size_t i = 0; i < shard_count_; ++i) {
    if (locks_reads()) indexes_[i].Hide();  // Strict reads go through the key's lock.
    shards_[i].entries.Use(slots, indexes_[i]);
  }
}

EntryStore::~EntryStore() = default;

// Evicts in steps, so that the listener has little to do at once. A store adds its weight and then reads the bound; the
// fence makes sure that it reads the new one, or that its weight is seen here.
void EntryStore::Bound(int64_t max_weight) noexcept {
  constexpr size_t kStep = 16;
  max_weight_.store(max_weight, std::memory_order_relaxed);
  HeavyFence();
  while (Exceeds()) {
    AfterUnlock after(*this);
    const bool evicted = EvictUntilItFits(nullptr, kStep, after);
    after.Run();
    if (!evicted) return;
  }
}

// Spins before it sleeps, because the mutex is mostly held for some 100 ns.
void ShardLock::Await(Shard& shard) {
  constexpr int kSpins = 100;
  constexpr int kPauses = 8;  // Between two tries, so that the holder keeps the mutex's cache line.
  shard.waiting.fetch_add(1, std::memory_order_relaxed);
  bool locked = false;
  for (int spin = 0; spin < kSpins && !locked; ++spin) {
    for (int pause = 0; pause < kPauses; ++pause) CpuRelax();
    locked = shard.mutex.try_lock();
  }
  if (!locked) shard.mutex.lock();
  shard.waiting.fetch_sub(1, std::memory_order_relaxed);
}

// Returns null if the value is not to be stored, or if there is no memory or the copy of the key throws. Runs the
// weigher.
EntryPtr EntryStore::MakeEntry(const KeyAt& at, const Loaded& loaded, Instant now) noexcept {
  try {
    std::optional<EntryTimes> times = loaded.times;
    if (!times.has_value()) times = freshness_.OfValue(now, loaded.entry.ttl, loaded.took);
    if (!times.has_value()) return nullptr;
    times->KeepUntil(loaded.kept_until);
    const Pinned& value = *loaded.answer;
    const std::optional<int64_t> weight = WeightOf(at, value.raw());
    if (!weight.has_value() || *weight > max_weight()) return nullptr;
    return std::make_unique<NewEntry>(
        NewEntry{value.raw(), has_.boxes ? BoxFor(at.key, value, loaded.renews) : nullptr, *weight, HitsUntil(*times),
                 EntryExtra::For(*times, loaded.entry.tags, absl::OkStatus(), loaded.stamp)});
  } catch (...) {
    LogThrown("a value is not stored");
    return nullptr;
  }
}

// For a NotFoundError, or for another error that is to be cached. Returns null in the same cases as MakeEntry().
EntryPtr EntryStore::MakeAbsence(const KeyAt& at, const Loaded& loaded, Instant now) noexcept {
  try {
    const absl::Status& absence = loaded.answer.status();
    std::optional<EntryTimes> times = loaded.times;
    if (!times.has_value()) {
      times = absl::IsNotFound(absence) ? freshness_.OfAbsence(now, loaded.entry.ttl)
                                        : freshness_.OfError(now, loaded.entry.ttl);
    }
    if (!times.has_value() || options_.negative_weight > max_weight()) return nullptr;
    times->KeepUntil(loaded.kept_until);
    return std::make_unique<NewEntry>(NewEntry{nullptr, BoxFor(at.key, nullptr, false), options_.negative_weight,
                                               Instant::InfinitePast(),
                                               EntryExtra::For(*times, loaded.entry.tags, absence, loaded.stamp)});
  } catch (...) {
    LogThrown("an absence or an error is not cached");
    return nullptr;
  }
}

std::optional<int64_t> EntryStore::WeightOf(const KeyAt& at, const void* value) const {
  if (!has_.weigh) return 1;
  const auto weight = GuardCallback<absl::StatusOr<int64_t>>(
      weigher_label_, [&]() -> absl::StatusOr<int64_t> { return Weigh(at.key, value); });
  if (weight.ok()) return std::max<int64_t>(*weight, 1);
  Log(LogSeverity::kError, Concat(weight.status().message(), "; the value is not stored"));
  return std::nullopt;
}

EntryTimes EntryStore::TimesOf(const Slot& slot) const {
  return slot.extra != nullptr ? slot.extra->times : freshness_.Of(slot.expires_at());
}

// The same, to be changed.
EntryTimes& EntryStore::KeptTimesOf(Slot& slot) {
  if (slot.extra == nullptr) slot.extra = std::make_unique<EntryExtra>(TimesOf(slot));
  return slot.extra->times;
}

// Replaces the key's entry, `old` or null, by `fresh`, which may be null. Returns the stored entry, or null. `cause` is
// the cause for an entry that has not expired. `renews`: the value of `old` is stored again, so it does not leave the
// cache. Without memory, nothing is stored.
const Slot* EntryStore::Replace(const KeyAt& at, Slot* old, NewEntry* fresh, RemovalCause cause, bool renews,
                                AfterUnlock& after, Instant now) noexcept {
  Shard& shard = shards_[at.shard];
  if (old != nullptr && (now >= old->expires_at() || IsIdle(*old, now))) cause = RemovalCause::kExpired;
  if (fresh != nullptr && fresh->weight > max_weight()) fresh = nullptr;  // SetMaxWeight() came in between.
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
  if (fresh->is_use) RecordUse(*old, now);
  ExpectExpiry(shard, *old, now, after);
  SweepSome(shard, Shard::kSweptByStore, now, after);
  return old->free() ? nullptr : old;
}

// Whether a shard makes room for a new entry by evicting one of its own: then the weight that all shards share often
// does not change. In a cache with few entries per shard the shards take turns (Trim()), because an entry that a small
// shard evicts may be far from the least useful one of the cache.
inline bool EntryStore::EvictsItsOwn(const EntryTable& entries, int64_t weight) const {
  constexpr size_t kMany = 1000;
  return weight_.load(std::memory_order_relaxed) + weight > max_weight() && entries.size() >= kMany &&
         static_cast<double>(entries.weight()) >= full_share_ * static_cast<double>(max_weight());
}

// Counts an entry that was just added if too many entries have its hash. Returns whether that must be logged, when the
// mutex is released: once per shard.
inline bool EntryStore::CountCrowd(Shard& shard) {
  if (!shard.entries.TakeCrowded()) [[likely]] {
    return false;
  }
  Count(kHashCollisions);
  return !std::exchange(shard.crowded, true);
}

void EntryStore::LogCrowd() const noexcept {
  LogParts(LogSeverity::kWarning, "LoadingCache '", options_.name, "': more than ", EntryIndex::kMostEqual,
           " entries have the same hash, so that operations on their keys are slow: see Hash of LoadingCache");
}

// Gives the slot of a victim to a new entry that has neither a box nor other parts. No cache with a box, a listener or
// an expiry calls this, so nothing is left to be done after the mutex is released, except for LogCrowd(): `crowd`.
bool EntryStore::TryReplaceVictim(Shard& shard, const KeyAt& at, NewEntry& fresh, bool& crowd) {
  EntryTable& entries = shard.entries;
  if (!EvictsItsOwn(entries, fresh.weight)) return false;
  const int64_t weight = entries.weight();
  Write(entries.ReplaceVictim(at.hash, fresh.weight), at.key, &fresh);
  AddEntries(0, entries.weight() - weight);
  Count(kEvictionSize);
  crowd = CountCrowd(shard);
  return true;
}

// The key has no entry.
const Slot* EntryStore::Insert(const KeyAt& at, NewEntry& fresh, AfterUnlock& after, Instant now) noexcept {
  Shard& shard = shards_[at.shard];
  EntryTable& entries = shard.entries;
  int64_t count = 1;
  int64_t weight = fresh.weight;
  if (EvictsItsOwn(entries, weight)) {
    const uint32_t victim = entries.Evict(nullptr);
    weight -= entries[victim].weight;
    --count;
    FreeSlot(shard, victim, VictimsCause(entries[victim], now), after);
  }
  Slot* stored = nullptr;
  try {
    stored = &entries.Insert(at.hash, fresh.weight, std::move(fresh.extra), reader(),
                             [&](Slot& slot) STOCKADE_REQUIRES(kShardMutex) { Write(slot, at.key, &fresh); });
  } catch (const std::bad_alloc&) {
    LogThrown("a value is not stored");
    --count;
    weight -= fresh.weight;
  }
  AddEntries(count, weight);
  if (stored == nullptr) return nullptr;
  RecordUse(*stored, now);
  if (CountCrowd(shard)) after.crowded = true;
  ExpectExpiry(shard, *stored, now, after);
  SweepSome(shard, Shard::kSweptByStore, now, after);
  return stored->free() ? nullptr : stored;
}

void EntryStore::RemoveIfIdle(const KeyAt& at, Instant now, AfterUnlock& after) {
  if (!idle_.enabled()) return;
  Slot* const entry = FindEntry(at);
  if (entry != nullptr && IsIdle(*entry, now)) Remove(shards_[at.shard], *entry, RemovalCause::kExpired, after);
}

void EntryStore::Remove(Shard& shard, Slot& slot, RemovalCause cause, AfterUnlock& after) noexcept {
  AddEntries(-1, -slot.weight);
  FreeSlot(shard, shard.entries.Unlink(slot), cause, after);
}

inline RemovalCause EntryStore::VictimsCause(const Slot& victim, Instant now) const {
  return now < victim.expires_at() && !IsIdle(victim, now) ? RemovalCause::kSize : RemovalCause::kExpired;
}

// The entry leaves also if there is no memory for the call of the listener, which is then left out and logged.
inline void EntryStore::ReportLeaving(const Slot& slot, RemovalCause cause, AfterUnlock& after) noexcept {
  CountRemoval(cause);
  if (!has_.on_removal || !slot.has_value()) return;
  try {
    after.removed.push_back(RemovalOf(slot, cause));
  } catch (const std::bad_alloc&) {
    ++after.unreported;
  }
}

// The slot is out of its queue.
void EntryStore::FreeSlot(Shard& shard, uint32_t id, RemovalCause cause, AfterUnlock& after) noexcept {
  Slot& slot = shard.entries[id];
  const int64_t weight = slot.weight;
  ReportLeaving(slot, cause, after);
  const Box* box = nullptr;
  shard.entries.Free(id, [&]() STOCKADE_REQUIRES(kShardMutex) { box = Write(slot, nullptr, nullptr); });
  Retire(shard, box, weight, after);
}

// Evicts until the weight is within its bound. `spared` was just stored and is evicted last. It may
// not exist any more, so only its address is used. The shards take turns, so evicted entries are close to the least
// recently used ones. Evicts at most `most`. False: there was none to evict.
bool EntryStore::EvictUntilItFits(const Slot* spared, size_t most, AfterUnlock& after) noexcept {
  const Instant now = Now();
  size_t shard = 0;
  size_t evicted = 0;
  for (size_t in_vain = 0; evicted < most && Exceeds() && in_vain < shard_count_;) {
    // After a shard without a victim comes the next one, whatever other threads have drawn meanwhile, so that none is
    // left out.
    shard = in_vain == 0 ? next_victim_.fetch_add(1, std::memory_order_relaxed) : shard + 1;
    const bool found = EvictOne(shard & shard_mask_, spared, now, after);
    in_vain = found ? 0 : in_vain + 1;
    evicted += found ? 1 : 0;
  }
  return evicted > 0;
}

bool EntryStore::EvictOne(size_t index, const Slot* spared, Instant now, AfterUnlock& after) noexcept {
  Shard& shard = shards_[index];
  const ShardLock lock(shard);
  const uint32_t victim = shard.entries.Evict(spared);
  if (victim == 0) return false;
  AddEntries(-1, -shard.entries[victim].weight);
  FreeSlot(shard, victim, VictimsCause(shard.entries[victim], now), after);
  return true;
}

// Boxes that have left their slots are freed when no hit reads them any more, in batches, which share the cost of a
// HeavyFence(). A shard keeps its batch (Shard::Retired). A batch that no later store frees is freed within 100 ms by a
// thread that all caches of the process share. Of each batch, one box per thread may stay, which the thread was
// reading. After the batch of a pinned value was freed, its handles own it: each has a share.

// With a clock other than the system clock, boxes are freed at once, so that a test with a
// ManualClock sees when values are destroyed.
void EntryStore::Retire(Shard& shard, const Box* box, int64_t weight, AfterUnlock& after) noexcept {
  if (box == nullptr) return;
  Shard::Retired& retired = shard.retired;
  retired.boxes.Add(box);
  retired.bytes += box->bytes();
  retired.weight += weight;
  if (options_.clock == Clock::System()) {
    const Instant tick = options_.clock->CoarseNow();
    const int64_t share = static_cast<int64_t>(shard_count_) * Shard::Retired::kWeightPart;
    const bool waits = tick == retired.freed_at && retired.boxes.size() < Shard::Retired::kMostBoxes &&
                       retired.bytes < Shard::Retired::kMostBytes && retired.weight <= max_weight() / share;
    if (waits) {
      after.retired = true;
      return;
    }
    retired.freed_at = tick;
  }
  retired.MoveTo(after.boxes);
}

// Gives back a share of each box. Runs destructors of keys and values.
void EntryStore::FreeBoxes(BoxList boxes) noexcept {
  BoxList kept;
  while (!boxes.empty()) {
    std::array<const Box*, kFreedAtOnce> taken;
    const auto batch = std::span(taken).first(boxes.Take(taken));
    std::sort(batch.begin(), batch.end());
    HeavyFence();
    // Before the pins: a value that is no longer being read has its pin by then.
    std::bitset<kFreedAtOnce + 1> read;  // The last one is of those that are not in the batch.
    for (const HazardRow& row : HazardRows()) {
      read.set(PlaceOf(row.reads.load(std::memory_order_seq_cst), batch));
    }
    HandOver(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      read[i] ? kept.Add(batch[i]) : batch[i]->Unshare();
    }
  }
  if (kept.empty()) return;
  {
    const ShardLock lock(shards_[0]);
    shards_[0].retired.boxes.AddAll(std::move(kept));
  }
  if (options_.clock == Clock::System()) PlanReclaim();
}

// Removes all entries at the end of the cache. The listener is not notified.
void EntryStore::Empty(Shard& shard) {
  const ShardLock lock(shard);
  for (uint32_t id = 1; id < shard.entries.end(); ++id) {
    Slot& slot = shard.entries[id];
    if (slot.free()) continue;
    shard.entries.Free(shard.entries.Unlink(slot), [&]() STOCKADE_REQUIRES(kShardMutex) {
      if (const Box* const box = Write(slot, nullptr, nullptr); box != nullptr) shard.retired.boxes.Add(box);
    });
  }
}

// Frees what waits in all shards.
void EntryStore::FlushRetired() noexcept {
  BoxList boxes;
  for (size_t index = 0; index < shard_count_; ++index) {
    const ShardLock lock(shards_[index]);
    shards_[index].retired.MoveTo(boxes);
  }
  FreeBoxes(std::move(boxes));
}

void EntryStore::PlanReclaim() noexcept {
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
struct EntryStore::Notices {
  const EntryStore* core;
  std::list<Removal> pending;  // Lists pass on their elements without memory.
  Notices* outer;              // Of another cache.

  static inline constinit thread_local Notices* innermost = nullptr;

  static Notices* Of(const EntryStore* core) {
    Notices* notices = innermost;
    while (notices != nullptr && notices->core != core) notices = notices->outer;
    return notices;
  }
};

// Invokes the listener.
void EntryStore::Notify(std::list<Removal> removed) noexcept {
  if (Notices* const notices = Notices::Of(this); notices != nullptr) {
    notices->pending.splice(notices->pending.end(), removed);
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
      if (!status.ok()) LogParts(LogSeverity::kError, status.message());
    }
  }
  Notices::innermost = notices.outer;
}

// Runs `body`, and returns the removals that the listener is to be notified of.
std::list<Removal> EntryStore::RemovalsBy(absl::FunctionRef<void()> body) {
  Notices notices{this, {}, Notices::innermost};
  Notices::innermost = &notices;
  body();
  Notices::innermost = notices.outer;
  return std::move(notices.pending);
}

void EntryStore::CheckNotInListener() const {
  if (Notices::Of(this) != nullptr) DestroyedFromWithin("listener");
}

// Sweeps remove expired entries without requests. Each store walks over a few slots of its shard if the earliest time
// at which one of the shard's entries is over has passed. A timer walks over all shards, one after another, so that
// entries also leave a cache in which nothing is stored.

// The time at which a sweep removes the entry.
Instant EntryStore::LeavesAt(const Slot& slot, Instant now) const {
  const bool may_be_compared = slot.has_value() && previous_asked_.get();
  const Instant over_at = may_be_compared ? Instant::InfiniteFuture() : TimesOf(slot).OverAt();
  return std::min(over_at, idle_.IdleAt(slot.last_use.load(std::memory_order_relaxed), now));
}

inline void EntryStore::ExpectExpiry(Shard& shard, const Slot& stored, Instant now, AfterUnlock& after) {
  if (stored.expires_at() == Instant::InfiniteFuture() && !idle_.enabled()) return;
  const Instant leaves_at = LeavesAt(stored, now);
  if (leaves_at == Instant::InfiniteFuture()) return;
  shard.walk.over_at = std::min(shard.walk.over_at, leaves_at);
  shard.walk.passed_over_at = std::min(shard.walk.passed_over_at, leaves_at);
  after.needs_sweep = true;
}

void EntryStore::SweepSome(Shard& shard, uint32_t slots, Instant now, AfterUnlock& after) noexcept {
  Shard::Walk& walk = shard.walk;
  if (now < walk.over_at) return;
  for (; slots > 0 && walk.next < shard.entries.end(); --slots, ++walk.next) {
    Slot& slot = shard.entries[walk.next];
    if (slot.free()) continue;
    const Instant leaves_at = LeavesAt(slot, now);
    if (now >= leaves_at) {
      Remove(shard, slot, RemovalCause::kExpired, after);
    } else {
      walk.passed_over_at = std::min(walk.passed_over_at, leaves_at);
    }
  }
  if (walk.next >= shard.entries.end()) walk = {.over_at = walk.passed_over_at};
}

void EntryStore::PlanSweep() noexcept {
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
void EntryStore::Sweep() {
  sweep_planned_.store(false, std::memory_order_relaxed);
  const Instant now = Now();
  bool more = false;
  for (size_t index = 0; index < shard_count_;) {
    Shard& shard = shards_[index];
    AfterUnlock after(*this);
    ShardLock lock(shard);
    if (shard.closed) return;
    if (now >= shard.walk.over_at) {
      SweepSome(shard, Shard::kSweptAtOnce, now, after);
    } else {
      more = more || shard.walk.over_at != Instant::InfiniteFuture();
      ++index;
    }
    lock.Unlock();
    after.Run();
  }
  FlushRetired();
  if (more) PlanSweep();
}

int64_t EntryStore::size() const {
  CheckFork();
  return entries_.load(std::memory_order_relaxed);
}

int64_t EntryStore::weight() const {
  CheckFork();
  return weight_.load(std::memory_order_relaxed);
}

void EntryStore::CountRemoval(RemovalCause cause) noexcept {
  switch (cause) {
    case RemovalCause::kInvalidated: return Count(kEvictionInvalidated);
    case RemovalCause::kReplaced: return;
    case RemovalCause::kExpired: return Count(kEvictionExpired);
    case RemovalCause::kSize: return Count(kEvictionSize);
  }
}

absl::Status EntryStore::ScheduleReclaim(Executor::Task reclaim) {
  struct Reclaimer {
    ForkGuard fork_guard;
    TimerQueue timers{Clock::System()};
  };
  // Never destroyed: caches may live as long. A forked child has neither the thread nor, perhaps, a free mutex.
  static std::atomic<Reclaimer*> current{new Reclaimer};
  Reclaimer* reclaimer = current.load(std::memory_order_acquire);
  if (reclaimer->fork_guard.InForkedChild()) {
    auto fresh = std::make_unique<Reclaimer>();
    if (current.compare_exchange_strong(reclaimer, fresh.get(), std::memory_order_acq_rel)) reclaimer = fresh.release();
  }
  if (absl::Status started = reclaimer->timers.Start(); !started.ok()) return started;
  reclaimer->timers.Schedule(Clock::System()->Now() + kReclaimDelay, std::move(reclaim));
  return absl::OkStatus();
}

}  // namespace stockade::cache_internal
