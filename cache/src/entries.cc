// Creation, replacement and eviction of entries.

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

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
EntryPtr CacheCore::MakeEntry(const KeyAt& at, const Pinned& value, const EntryOptions& options,
                              absl::Duration load_time, Instant now) noexcept {
  try {
    const std::optional<EntryTimes> times = freshness_.OfValue(now, options.ttl, load_time);
    if (!times.has_value()) return nullptr;
    const std::optional<int64_t> weight = WeightOf(at, value.raw());
    if (!weight.has_value() || *weight > options_.max_weight) return nullptr;
    return std::make_unique<NewEntry>(NewEntry{value.raw(), BoxFor(at.key, value), *weight, times->QuietUntil(),
                                               EntryExtra::For(*times, options.tags)});
  } catch (...) {
    LogThrown("a value is not stored");
    return nullptr;
  }
}

// For a NotFoundError, or for another error that is to be cached. Returns null in the same cases as MakeEntry().
EntryPtr CacheCore::MakeAbsence(const KeyAt& at, const absl::Status& absence, const EntryOptions& options,
                                Instant now) noexcept {
  try {
    const bool absent = absl::IsNotFound(absence);
    const std::optional<EntryTimes> times =
        absent ? freshness_.OfAbsence(now, options.ttl) : freshness_.OfError(now, options.ttl);
    if (!times.has_value() || options_.negative_weight > options_.max_weight) return nullptr;
    return std::make_unique<NewEntry>(NewEntry{nullptr, BoxFor(at.key, nullptr), options_.negative_weight,
                                               Instant::InfinitePast(),
                                               EntryExtra::For(*times, options.tags, absence)});
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
  if (!renews) {
    CountRemoval(cause);
    if (has_.on_removal && old->has_value()) after.removed.push_back(RemovalOf(*old, cause));
  }
  Overwrite(shard, *old, *fresh, after);
  SweepSome(shard, Shard::kSweptByStore, now, after);
  return old->free() ? nullptr : old;
}

void CacheCore::Overwrite(Shard& shard, Slot& slot, NewEntry& fresh, Aftermath& after) {
  const int64_t weight = slot.weight;
  if (fresh.weight != weight) {
    AddEntries(0, fresh.weight - weight);
    shard.entries.Reweigh(slot, fresh.weight);
  }
  if (slot.extra != nullptr || fresh.extra != nullptr) shard.entries.SetExtra(slot, std::move(fresh.extra));
  Retire(shard, Write(slot, nullptr, &fresh), weight, after);
  ExpectExpiry(shard, slot, after);
}

// The key has no entry. A full shard with many entries evicts one of its own first: then the weight that all shards
// share often does not change. In a cache with few entries per shard the shards take turns (Trim()), because an entry
// that a small shard evicts may be far from the least useful one of the cache.
const Slot* CacheCore::Insert(const KeyAt& at, NewEntry& fresh, Aftermath& after, Instant now) {
  constexpr size_t kMany = 1000;
  Shard& shard = shards_[at.shard];
  EntryTable& entries = shard.entries;
  int64_t count = 1;
  int64_t weight = fresh.weight;
  if (entries.size() >= kMany && this->weight() + weight > options_.max_weight &&
      static_cast<double>(entries.weight()) * static_cast<double>(shard_count_) >=
          0.9 * static_cast<double>(options_.max_weight)) {
    const uint32_t victim = entries.Evict(nullptr);
    weight -= entries[victim].weight;
    --count;
    Leave(shard, victim, VictimsCause(entries[victim], now), after);
  }
  const Slot* stored = nullptr;
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

RemovalCause CacheCore::VictimsCause(const Slot& victim, Instant now) const {
  return now < victim.expires_at() ? RemovalCause::kSize : RemovalCause::kExpired;
}

// The slot is out of its queue.
void CacheCore::Leave(Shard& shard, uint32_t id, RemovalCause cause, Aftermath& after) {
  Slot& slot = shard.entries[id];
  const int64_t weight = slot.weight;
  CountRemoval(cause);
  if (has_.on_removal && slot.has_value()) after.removed.push_back(RemovalOf(slot, cause));
  const Box* box = nullptr;
  shard.entries.Free(id, [&] { box = Write(slot, nullptr, nullptr); });
  Retire(shard, box, weight, after);
}

// Evicts until the weight is within its bound; no mutex is held. `spared` was just stored and is evicted last. It may
// not exist any more, so only its address is used. The shards take turns, so evicted entries are close to the least
// recently used ones.
void CacheCore::Trim(const Slot* spared, Aftermath& after) {
  if (weight() <= options_.max_weight) return;
  const Instant now = Now();
  size_t shard = 0;
  for (size_t in_vain = 0; weight() > options_.max_weight && in_vain < shard_count_;) {
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

void CacheCore::CheckNotInListener() const {
  if (Notices::Of(this) != nullptr) DestroyedFromWithin("listener");
}

}  // namespace stockade::cache_internal
