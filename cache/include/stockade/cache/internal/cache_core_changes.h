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
// In steps, so that no other call waits for long; flights learn of it in the last, which finds no entry left.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateTag(std::string_view tag) {
  CheckFork();
  for (size_t index = 0; index < shard_count_;) {
    CallGate::Call inside(*gate_, index);
    if (!inside.inside()) return;
    Aftermath after(*this);
    Shard& shard = shards_[index];
    const ShardLock lock = Lock(shard);
    size_t removed = 0;
    for (Entry* entry; removed < kStep && (entry = shard.entries.Tagged(tag)) != nullptr; ++removed) {
      shard.flights.DetachRunning(entry->key);
      Remove(shard, *entry, RemovalCause::kInvalidated, after);
    }
    if (removed == kStep) continue;
    shard.flights.Void(tag);
    ++index;
  }
}

// In steps, so that no other call waits for long. A load that begins between them is as new as this call, but must not
// be given what may be old, and so a shard's flights are detached once, at the beginning.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateAll() {
  CheckFork();
  for (size_t index = 0; index < shard_count_; ++index) {
    Shard& shard = shards_[index];
    for (uint64_t position = 0; position != Table::kEnd;) {
      CallGate::Call inside(*gate_, index);
      if (!inside.inside()) return;
      Aftermath after(*this);
      const ShardLock lock = Lock(shard);
      if (position == 0) {
        ++shard.clearings;
        shard.flights.DetachAllRunning();
      }
      for (Entry* const entry : shard.entries.Some(position)) {
        Remove(shard, *entry, RemovalCause::kInvalidated, after);
      }
      if (position == Table::kEnd) --shard.clearings;
    }
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
  for (size_t index = 0; index < shard_count_; ++index) {
    Table& entries = shards_[index].entries;
    for (uint64_t position = 0; position != Table::kEnd;) {
      Entries removed;
      for (Entry* const entry : entries.Some(position)) removed.push_back(entries.Remove(*entry));
      retired_.Add(std::move(removed));
    }
  }
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_CHANGES_H_
