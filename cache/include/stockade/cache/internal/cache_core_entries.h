#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_ENTRIES_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_ENTRIES_H_

// Bodies of CacheCore: entries made, replaced and evicted. Included by cache_core.h.

#include <algorithm>

#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::internal {

// A list of one entry, or of none where the value is not to be stored. Runs the weigher: no mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::MakeEntry(const Key& key, std::shared_ptr<const Value> value,
                                                std::optional<absl::Duration> ttl, Instant now) -> Entries {
  Entries made;
  const std::optional<EntryTimes> times = freshness_.OfValue(now, ttl);
  if (!times.has_value()) return made;
  const std::optional<int64_t> weight = Weigh(key, *value);
  if (weight.has_value() && *weight <= options_.max_weight) {
    made.push_back({key, std::move(value), absl::OkStatus(), *weight, *times});
  }
  return made;
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::MakeAbsence(const Key& key, const absl::Status& absence, Instant now) -> Entries {
  Entries made;
  const std::optional<EntryTimes> times = freshness_.OfAbsence(now);
  if (times.has_value() && options_.negative_weight <= options_.max_weight) {
    made.push_back({key, nullptr, absence, options_.negative_weight, *times});
  }
  return made;
}

template <typename Key, typename Value, typename Hash, typename Eq>
std::optional<int64_t> CacheCore<Key, Value, Hash, Eq>::Weigh(const Key& key, const Value& value) {
  if (!weigher_) return 1;
  const auto weight = GuardCallback<absl::StatusOr<int64_t>>(
      weigher_label_, [&]() -> absl::StatusOr<int64_t> { return weigher_(key, value); });
  if (weight.ok()) return std::max<int64_t>(*weight, 1);
  Log(LogSeverity::kError, Concat(weight.status().message(), "; the value is not stored"));
  return std::nullopt;
}

// Takes the key's entry away and puts `fresh` in its place, where there is one. Returns what was stored, or null.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Replace(Shard& shard, const Key& key, Entries& fresh, Entries& removed,
                                              Instant now) -> const Entry* {
  if (const Entry* const old = shard.entries.Find(key); old != nullptr) {
    if (now >= old->times.expires_at) Count(kEvictionExpired);
    Remove(shard, *old, removed);
  }
  if (fresh.empty()) return nullptr;
  const Entry& stored = fresh.front();
  AddEntries(1, stored.weight);
  shard.entries.Insert(fresh);
  return &stored;
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Remove(Shard& shard, const Entry& entry, Entries& removed) {
  AddEntries(-1, -entry.weight);
  shard.entries.Remove(entry, removed);
}

// Evicts until the bound holds; no mutex held. `spared` was just stored and goes last: it may be gone by now, so only
// its address counts. The shards take turns, so what goes is near to what was used longest ago.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Trim(const Entry* spared) {
  for (size_t in_vain = 0; weight() > options_.max_weight && in_vain < shard_count_;) {
    const size_t shard = next_victim_.fetch_add(1, std::memory_order_relaxed) & (shard_count_ - 1);
    in_vain = EvictOne(shard, spared) ? 0 : in_vain + 1;
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::EvictOne(size_t index, const Entry* spared) {
  Entries removed;
  const Instant now = Now();
  Shard& shard = shards_[index];
  const auto lock = Lock(shard);
  const Entry* const victim = shard.entries.Oldest(spared);
  if (victim == nullptr) return false;
  Count(now < victim->times.expires_at ? kEvictionSize : kEvictionExpired);
  Remove(shard, *victim, removed);
  return true;
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_ENTRIES_H_
