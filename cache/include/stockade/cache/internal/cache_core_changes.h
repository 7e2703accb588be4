#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_CHANGES_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_CHANGES_H_

// Bodies of CacheCore: Put, invalidation, the end. Included by cache_core.h.

#include "stockade/cache/internal/cache_core.h"

namespace stockade::internal {

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Put(const Key& key, Value value, EntryOptions entry) {
  CheckFork();
  const size_t index = ShardOf(key);
  CallGate::Call inside(*gate_, index);
  if (!inside.inside()) return;
  Aftermath after(*this);
  const Pinned pinned = Pinned::Make(std::move(value));
  const Instant now = Now();
  Owned fresh = MakeEntry(key, pinned, entry, absl::ZeroDuration(), now);
  const RemovalCause cause =
      entry.ttl.value_or(options_.ttl) > absl::ZeroDuration() ? RemovalCause::kReplaced : RemovalCause::kInvalidated;
  const Entry* stored;
  {
    Shard& shard = shards_[index];
    const ShardLock lock = Lock(shard);
    if (const FlightPtr flight = shard.flights.Current(key); flight != nullptr) {
      if (!flight->answered) AnswerFlight(*flight, pinned, after);
      Displace(shard, *flight, after);
    }
    stored = Replace(shard, key, std::move(fresh), cause, after, now);
  }
  Wake(after);
  if (stored != nullptr) Trim(stored, after);
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Invalidate(const Key& key) {
  CheckFork();
  const size_t index = ShardOf(key);
  CallGate::Call inside(*gate_, index);
  if (!inside.inside()) return;
  Aftermath after(*this);
  InvalidateWithin(index, key, after);
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateWithin(size_t index, const Key& key, Aftermath& after) {
  Shard& shard = shards_[index];
  const ShardLock lock = Lock(shard);
  if (Entry* const entry = FindEntry(shard, key); entry != nullptr) {
    Remove(shard, *entry, RemovalCause::kInvalidated, after);
  }
  shard.flights.DetachRunning(key);
}

// Of a load under way nobody knows yet what tags its result will have: it learns of the tag, and is checked at its end.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateTag(std::string_view tag) {
  CheckFork();
  for (size_t index = 0; index < shard_count_; ++index) {
    CallGate::Call inside(*gate_, index);
    if (!inside.inside()) return;
    Aftermath after(*this);
    Shard& shard = shards_[index];
    const ShardLock lock = Lock(shard);
    while (Entry* const entry = shard.entries.Tagged(tag)) {
      shard.flights.DetachRunning(entry->key);
      Remove(shard, *entry, RemovalCause::kInvalidated, after);
    }
    shard.flights.Void(tag);
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateAll() {
  CheckFork();
  for (size_t index = 0; index < shard_count_; ++index) {
    CallGate::Call inside(*gate_, index);
    if (!inside.inside()) return;
    Aftermath after(*this);
    Shard& shard = shards_[index];
    const ShardLock lock = Lock(shard);
    after.removed = shard.entries.RemoveAll();
    shard.flights.DetachAllRunning();
    for (const Owned& entry : after.removed) CountRemoval(entry->cause = RemovalCause::kInvalidated, entry->weight);
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Shutdown() {
  CheckNotInLoader();
  CheckNotInListener();
  gate_->Close();
  for (size_t index = 0; index < shard_count_; ++index) {
    Aftermath after(*this);
    const ShardLock lock = Lock(shards_[index]);
    shards_[index].closed = true;
    shards_[index].flights.ForEach([&](FlightT& flight) {
      if (!flight.answered) AnswerFlight(flight, CancelledError(), after);
    });
  }
  gate_->AwaitEmpty();
  AwaitReads(this);
  StopThreads();
  for (size_t index = 0; index < shard_count_; ++index) retired_.Add(shards_[index].entries.RemoveAll());
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_CHANGES_H_
