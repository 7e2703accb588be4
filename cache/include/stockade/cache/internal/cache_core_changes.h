#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_CHANGES_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_CHANGES_H_

// Bodies of CacheCore: Put, invalidation, shutdown. Included by cache_core.h.

#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Put(const Key& key, Value&& value, EntryOptions entry) {
  CheckFork();
  try {
    Store(key, std::move(value), entry);
  } catch (...) {
    LogThrown("Put() stores nothing and invalidates the key");
    Invalidate(key);  // The old value is outdated.
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Store(const Key& key, Value&& value, const EntryOptions& entry) {
  const HashedKey at = Hashed(key);
  CallGate::Call inside(*gate_, at.shard);
  if (!inside.inside()) return;
  Aftermath after(*this);
  const Pinned pinned = Pinned::Make(std::move(value));
  const Instant now = Now();
  Owned fresh = MakeEntry(at, pinned, entry, absl::ZeroDuration(), now);
  const RemovalCause cause =
      entry.ttl.value_or(options_.ttl) > absl::ZeroDuration() ? RemovalCause::kReplaced : RemovalCause::kInvalidated;
  const Entry* stored;
  {
    Shard& shard = shards_[at.shard];
    const ShardLock lock = Lock(shard);
    Entry* const old = FindEntry(at);
    if (const FlightPtr flight = Current(at); flight != nullptr) {
      if (!flight->answered) AnswerFlight(*flight, pinned, after);
      Displace(shard, *flight, after);
    }
    stored = Replace(shard, old, std::move(fresh), cause, after, now);
  }
  Wake(after);
  if (stored != nullptr) Trim(stored, after);
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Invalidate(const Key& key) {
  CheckFork();
  try {
    const HashedKey at = Hashed(key);
    CallGate::Call inside(*gate_, at.shard);
    if (!inside.inside()) return;
    Aftermath after(*this);
    InvalidateWithin(at, after);
  } catch (...) {
    InvalidateUnknown();
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateWithin(const HashedKey& at, Aftermath& after) noexcept {
  try {
    Shard& shard = shards_[at.shard];
    const ShardLock lock = Lock(shard);
    Entry* const entry = FindEntry(at);
    shard.flights.DetachRunning(at.hash, at.key);
    if (entry != nullptr) Remove(shard, *entry, RemovalCause::kInvalidated, after);
  } catch (...) {
    InvalidateUnknown();
  }
}

// A Hash or Eq has thrown, so it is unknown which entries and loads are affected: all are invalidated. Called in a
// catch clause.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateUnknown() noexcept {
  LogThrown("an invalidation removes all entries");
  InvalidateAll();
}

// While one exists, loaders of the shard get no previous value. NotModified() would store that value again, behind the
// steps of an invalidation.
template <typename Key, typename Value, typename Hash, typename Eq>
class CacheCore<Key, Value, Hash, Eq>::Clearing {
 public:
  explicit Clearing(Shard& shard) : shard_(shard) {
    const ShardLock lock = Lock(shard_);
    ++shard_.clearings;
  }
  ~Clearing() {
    const ShardLock lock = Lock(shard_);
    --shard_.clearings;
  }
  Clearing(const Clearing&) = delete;
  Clearing& operator=(const Clearing&) = delete;

 private:
  Shard& shard_;
};

// The tags of a load's result are unknown while it runs: the load records the tag and is checked at its end. If the key
// has an entry with the tag, the load is detached. All this is the first step. Then the entries with the tag are
// removed in steps, so that no other call waits for long. This includes entries that another such call has set apart
// and not removed yet, because this call must not return before they are removed.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateTag(std::string_view tag) {
  CheckFork();
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return;
  for (size_t index = 0; index < shard_count_; ++index) {
    Shard& shard = shards_[index];
    const Clearing clearing(shard);
    std::optional<typename Table::Doomed> doomed;
    for (bool more = true; more;) {
      Aftermath after(*this);
      const ShardLock lock = Lock(shard);
      if (!doomed.has_value()) {
        shard.flights.DetachRunningIf([&](const FlightT& flight) {
          Entry* entry = nullptr;  // If Eq throws, the flight's entry may have the tag.
          return !TryFindEntry(KeyOf(flight), entry) || (entry != nullptr && entry->HasTag(tag));
        });
        shard.flights.Void(tag);
        doomed = shard.entries.DoomTagged(tag);
      }
      Entry* entry = shard.entries.AnyDoomed(tag);
      for (size_t step = 0; step < kStep && entry != nullptr; ++step) {
        Remove(shard, *entry, RemovalCause::kInvalidated, after);
        entry = shard.entries.AnyDoomed(tag);
      }
      more = entry != nullptr;
      if (!more) shard.entries.ForgetDoomed(*doomed);
    }
  }
  if (retired_.Flush() && options_.clock == Clock::System()) PlanReclaim();
}

// Works in steps like InvalidateTag(). A load that begins between two steps is as new as this call, so the flights of a
// shard are detached once, at the beginning.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateAll() {
  CheckFork();
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return;
  for (size_t index = 0; index < shard_count_; ++index) {
    Shard& shard = shards_[index];
    const Clearing clearing(shard);
    for (uint64_t position = 0; position != Table::kEnd;) {
      Aftermath after(*this);
      const ShardLock lock = Lock(shard);
      if (position == 0) shard.flights.DetachAllRunning();
      for (Entry* const entry : shard.entries.Some(position)) {
        Remove(shard, *entry, RemovalCause::kInvalidated, after);
      }
    }
  }
  if (retired_.Flush() && options_.clock == Clock::System()) PlanReclaim();
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Shutdown() {
  CheckNotInLoader();
  CheckNotInListener();
  gate_->Close();
  for (size_t index = 0; index < shard_count_; ++index) {
    Aftermath after(*this);
    std::list<AsyncPtr> cancelled;
    {
      Shard& shard = shards_[index];
      const ShardLock lock = Lock(shard);
      shard.closed = true;
      shard.flights.ForEach([&](FlightT& flight) {
        if (!flight.answered) AnswerFlight(flight, CancelledError(), after);
      });
      for (auto& [hash, updates] : shard.updates) cancelled.splice(cancelled.end(), updates.parked);
      cancelled.splice(cancelled.end(), shard.ready);
      for (const AsyncPtr& async : cancelled) {
        StopWatching(*async);
        async->lobby = nullptr;
      }
    }
    for (const AsyncPtr& async : cancelled) {
      CountRequest(async->call);
      Deliver(async, CancelledError());
    }
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

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_CHANGES_H_
