#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_ENTRIES_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_ENTRIES_H_

// Bodies of CacheCore: creation, replacement and eviction of entries. Included by cache_core.h.

#include <algorithm>
#include <iterator>

#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

inline std::vector<std::string> EachOnce(std::vector<std::string> tags) {
  std::sort(tags.begin(), tags.end());
  tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
  return tags;
}

template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::TryFindEntry(const HashedKey& at, Entry*& entry) noexcept {
  try {
    entry = FindEntry(at);
    return true;
  } catch (...) {
    LogThrown("an entry is not found");
    return false;
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindValue(const HashedKey& at) noexcept -> Entry* {
  Entry* entry = nullptr;
  return TryFindEntry(at, entry) && entry != nullptr && entry->value != nullptr ? entry : nullptr;
}

// Returns null if the value is not to be stored or the copy of the key throws. Runs the weigher, so no mutex may be
// held.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::MakeEntry(const HashedKey& at, const Pinned& value, const EntryOptions& options,
                                                absl::Duration load_time, Instant now) noexcept -> Owned {
  try {
    const std::optional<EntryTimes> times = freshness_.OfValue(now, options.ttl, load_time);
    if (!times.has_value()) return nullptr;
    const std::optional<int64_t> weight = Weigh(at.key, *value);
    if (!weight.has_value() || *weight > options_.max_weight) return nullptr;
    auto entry =
        std::make_unique<Entry>(at.key, at.hash, value, absl::OkStatus(), *weight, *times, EachOnce(options.tags));
    if (options_.strict) entry->quiet_until = Instant::InfinitePast();  // Reads go through the key's lock.
    return entry;
  } catch (...) {
    LogThrown("a value is not stored");
    return nullptr;
  }
}

// For a NotFoundError, or for another error that is to be cached. Returns null in the same cases as MakeEntry().
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::MakeAbsence(const HashedKey& at, const absl::Status& absence,
                                                  const EntryOptions& options, Instant now) noexcept -> Owned {
  try {
    const bool absent = absl::IsNotFound(absence);
    const std::optional<EntryTimes> times =
        absent ? freshness_.OfAbsence(now, options.ttl) : freshness_.OfError(now, options.ttl);
    if (!times.has_value() || options_.negative_weight > options_.max_weight) return nullptr;
    return std::make_unique<Entry>(at.key, at.hash, nullptr, absence, options_.negative_weight, *times,
                                   EachOnce(options.tags));
  } catch (...) {
    LogThrown("an absence or an error is not cached");
    return nullptr;
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
std::optional<int64_t> CacheCore<Key, Value, Hash, Eq>::Weigh(const Key& key, const Value& value) {
  if (!callbacks_.weigh) return 1;
  const auto weight = GuardCallback<absl::StatusOr<int64_t>>(
      weigher_label_, [&]() -> absl::StatusOr<int64_t> { return callbacks_.weigh(key, value); });
  if (weight.ok()) return std::max<int64_t>(*weight, 1);
  Log(LogSeverity::kError, Concat(weight.status().message(), "; the value is not stored"));
  return std::nullopt;
}

// Replaces the key's entry, `old` or null, by `fresh`, which may be null. Returns the stored entry, or null. `cause` is
// the cause for an entry that has not expired. An entry whose value is stored again has not left the cache.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Replace(Shard& shard, Entry* old, Owned fresh, RemovalCause cause,
                                              Aftermath& after, Instant now) -> const Entry* {
  if (fresh == nullptr) {
    if (old != nullptr) Remove(shard, *old, now >= old->times.expires_at ? RemovalCause::kExpired : cause, after);
    return nullptr;
  }
  const Entry* const stored = fresh.get();
  AddEntries(1, stored->weight);
  ExpectExpiry(shard, *stored, after);
  if (old == nullptr) {
    shard.entries.Insert(std::move(fresh));
  } else if (old->value != nullptr && old->value == stored->value) {
    AddEntries(-1, -old->weight);
    after.renewed.push_back(shard.entries.Replace(*old, std::move(fresh)));
  } else {
    old->cause = now >= old->times.expires_at ? RemovalCause::kExpired : cause;
    CountRemoval(old->cause, old->weight);
    after.removed.push_back(shard.entries.Replace(*old, std::move(fresh)));
  }
  SweepSome(shard, kSweptByStore, now, after);
  return stored;
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Remove(Shard& shard, Entry& entry, RemovalCause cause, Aftermath& after) {
  CountRemoval(cause, entry.weight);
  entry.cause = cause;
  after.removed.push_back(shard.entries.Remove(entry));
}

// Evicts until the weight is within its bound; no mutex is held. `spared` was just stored and is evicted last. It may
// not exist any more, so only its address is used. The shards take turns, so evicted entries are close to the least
// recently used ones.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Trim(const Entry* spared, Aftermath& after) {
  size_t shard = 0;
  for (size_t in_vain = 0; weight() > options_.max_weight && in_vain < shard_count_;) {
    // After a shard without a victim comes the next one, whatever other threads have drawn meanwhile, so that none is
    // left out.
    shard = in_vain == 0 ? next_victim_.fetch_add(1, std::memory_order_relaxed) : shard + 1;
    in_vain = EvictOne(shard & shard_mask_, spared, after) ? 0 : in_vain + 1;
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::EvictOne(size_t index, const Entry* spared, Aftermath& after) {
  const Instant now = Now();
  Shard& shard = shards_[index];
  const ShardLock lock = Lock(shard);
  Owned victim = shard.entries.Evict(spared);
  if (victim == nullptr) return false;
  victim->cause = now < victim->times.expires_at ? RemovalCause::kSize : RemovalCause::kExpired;
  CountRemoval(victim->cause, victim->weight);
  after.removed.push_back(std::move(victim));
  return true;
}

// Entries that the calling thread has removed while the listener runs for another entry. A listener that removes
// entries adds to this list instead of nesting, so that a chain of removals cannot exhaust the stack.
template <typename Key, typename Value, typename Hash, typename Eq>
struct CacheCore<Key, Value, Hash, Eq>::Notices {
  const CacheCore* core;
  Entries pending;
  Notices* outer;  // Of another cache.

  static inline constinit thread_local Notices* innermost = nullptr;

  static Notices* Of(const CacheCore* core) {
    Notices* notices = innermost;
    while (notices != nullptr && notices->core != core) notices = notices->outer;
    return notices;
  }
};

// Invokes the listener and has the entries freed. No mutex is held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Notify(Entries removed) {
  if (!callbacks_.on_removal) return Retire(std::move(removed));
  if (Notices* const notices = Notices::Of(this); notices != nullptr) {
    std::move(removed.begin(), removed.end(), std::back_inserter(notices->pending));
    return;
  }
  Notices notices{this, std::move(removed), Notices::innermost};
  Notices::innermost = &notices;
  while (!notices.pending.empty()) {
    Entries told = std::exchange(notices.pending, {});
    for (const Owned& entry : told) {
      if (entry->value == nullptr) continue;
      const absl::Status status = GuardCallback<absl::Status>(listener_label_, [&] {
        callbacks_.on_removal(entry->key, Handle(entry->value), entry->cause);
        return absl::OkStatus();
      });
      if (!status.ok()) Log(LogSeverity::kError, Concat(status.message()));
    }
    Retire(std::move(told));
  }
  Notices::innermost = notices.outer;
}

// Has entries freed, now or within 100 ms. No mutex is held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Retire(Entries entries) {
  if (retired_.Add(std::move(entries)) && options_.clock == Clock::System()) PlanReclaim();
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::PlanReclaim() noexcept {
  if (reclaim_planned_.load(std::memory_order_relaxed)) return;
  if (reclaim_planned_.exchange(true, std::memory_order_relaxed)) return;
  try {
    const absl::Status planned = ScheduleReclaim([this, gate = gate_] {
      CallGate::Call inside(*gate, 0);
      if (!inside.inside()) return;
      reclaim_planned_.store(false, std::memory_order_relaxed);  // First: later entries plan another reclaim.
      if (retired_.Flush()) PlanReclaim();
    });
    // No thread: the next retired entry tries again.
    if (!planned.ok()) reclaim_planned_.store(false, std::memory_order_relaxed);
  } catch (...) {  // Out of memory: the same.
    reclaim_planned_.store(false, std::memory_order_relaxed);
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::CheckNotInListener() const {
  if (Notices::Of(this) != nullptr) DestroyedFromWithin("listener");
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_ENTRIES_H_
