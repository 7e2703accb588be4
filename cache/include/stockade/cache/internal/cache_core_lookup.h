#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOOKUP_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOOKUP_H_

// Bodies of CacheCore: lookups, and the refreshes that they start. Included by cache_core.h.

#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// The hit path: no lock, no read-modify-write, and no store to shared data except for the first few uses of an entry. A
// hit does not enter the gate; the destructor waits for it by AwaitReads().
//
// FindOr() handles the simplest hits in as few instructions as possible, because that number limits what a core can do
// while it waits for memory. `otherwise` handles the other cases; it gets the open read and the entry that was found.
template <typename Key, typename Value, typename Hash, typename Eq>
template <typename Result, typename Otherwise>
inline Result CacheCore<Key, Value, Hash, Eq>::FindOr(const Key& key, const Otherwise& otherwise) {
  HazardRow* const row = ThisLightRow();
  if (row == nullptr || row->caller.load(std::memory_order_relaxed) != nullptr) return otherwise(Look());
  HazardRow::Read read = HazardRow::Read::Light(*row, this);
  const uint64_t hash = HashOf(key);
  Entry* const entry = shards_[ShardOfHash(hash)].entries.FindAtHome(hash, key, *row);
  if (entry != nullptr && entry->quiet_until == Instant::InfiniteFuture() && TryCountHit()) [[likely]] {
    entry->Touch();
    return Handle(*row, *entry);
  }
  return otherwise({.open = read.Release(), .entry = entry});
}

// Hits that need a clock or a longer search. Returns null if the call must look up the key under the mutex. This is
// also the case for an Eq or a clock that uses a cache from within a hit. `read` protects the entry, and is open
// whenever the thread may read.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindUnlocked(const Key& key, Look look, HazardRow::Read& read) -> Entry* {
  if (look.entry == nullptr) {
    if (read.row() == nullptr) return nullptr;
    const uint64_t hash = HashOf(key);
    look.entry = shards_[ShardOfHash(hash)].entries.FindUnlocked(hash, key, *read.row());
  }
  if (look.entry == nullptr || !IsQuiet(*look.entry)) return nullptr;
  Count(kRequestHit);
  look.entry->Touch();
  return look.entry;
}

template <typename Key, typename Value, typename Hash, typename Eq>
HazardRow::Read CacheCore<Key, Value, Hash, Eq>::Open(const Look& look) const {
  if (look.open != nullptr) return HazardRow::Read(look.open);
  HazardRow* const row = ThisHazardRow();
  if (row == nullptr || row->caller.load(std::memory_order_relaxed) != nullptr) return {};
  return {*row, this};
}

// Whether the entry is neither expired nor due. The coarse clock may be one tick late, so near the end the exact clock
// decides.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::IsQuiet(const Entry& entry) const {
  if (entry.quiet_until == Instant::InfiniteFuture()) return true;
  if (entry.quiet_until == Instant::InfinitePast()) return false;
  const int64_t latest = options_.clock->CoarseNow().nanoseconds() + kLongestTick;
  return latest < entry.quiet_until.nanoseconds() || Now() < entry.quiet_until;
}

template <typename Key, typename Value, typename Hash, typename Eq>
inline auto CacheCore<Key, Value, Hash, Eq>::Get(const Key& key) -> absl::StatusOr<Handle> {
  try {
    return FindOr<absl::StatusOr<Handle>>(key,
                                          [&](const Look& look) { return Find(key, default_call_, nullptr, look); });
  } catch (...) {
    return ThrownError();
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
inline auto CacheCore<Key, Value, Hash, Eq>::Get(const Key& key, const CacheGetOptions& options,
                                                 const MakeLoader* make_loader) -> absl::StatusOr<Handle> {
  try {
    return FindOr<absl::StatusOr<Handle>>(key, [&](const Look& look) { return Find(key, options, make_loader, look); });
  } catch (...) {
    return ThrownError();
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::NewCall(const CacheGetOptions& options) const -> Call {
  const Instant now = Now();
  return {.begun = now, .deadline = now + options.timeout, .stop = options.stop};
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Find(const Key& key, const CacheGetOptions& options,
                                           const MakeLoader* make_loader, const Look& look) -> absl::StatusOr<Handle> {
  CheckFork();
  HazardRow::Read read = Open(look);
  if (const Entry* const entry = FindUnlocked(key, look, read)) return Handle(*read.row(), *entry);
  const HashedKey at = Hashed(key);
  CallGate::Call inside(*gate_, at.shard);
  if (!inside.inside()) return CancelledError();
  read.End();
  Call call = NewCall(options);
  Answer answer = Find(at, call, make_loader);
  CountRequest(call);
  if (!answer.ok()) return answer.status();
  return Handle(*std::move(answer));
}

// Blocks if a load is needed. Sets the result that the call counts as, but does not count it.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Find(const HashedKey& at, Call& call, const MakeLoader* make_loader) noexcept
    -> Answer {
  try {
    return FindOrLoad(at, call, make_loader);
  } catch (...) {
    Answer thrown = ThrownError();
    Abandon(call);
    return thrown;
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindOrLoad(const HashedKey& at, Call& call, const MakeLoader* make_loader)
    -> Answer {
  ReadHold reading;
  if (options_.strict && !TakeReadLock(at.hash, call.deadline, reading)) return DeadlineError();
  Shard& shard = shards_[at.shard];
  for (;;) {
    const Instant now = Now();
    Aftermath after(*this);
    ShardLock lock = Lock(shard);
    std::optional<RefreshTrigger> due;
    if (std::optional<Answer> served = Serve(at, now, true, call.result, due)) {
      lock.unlock();
      if (due.has_value()) {
        absl::StatusOr<LoaderPtr> loader = make_loader != nullptr ? CopyLoader(*make_loader) : nullptr;
        if (loader.ok()) StartRefresh(at, *due, *std::move(loader));
      }
      return *std::move(served);
    }
    call.result = kRequestMiss;
    if (TimeOutHung(at, now, after)) continue;
    if (make_loader != nullptr && call.loader == nullptr && Current(at) == nullptr) {
      lock.unlock();
      absl::StatusOr<LoaderPtr> loader = CopyLoader(*make_loader);
      if (!loader.ok()) return loader.status();
      call.loader = *std::move(loader);
      continue;
    }
    if (absl::Status refusal = Join(at, call, now); !refusal.ok()) return refusal;
    Sit(call);
    if (std::optional<Answer> answer = Await(call, lock, after)) return *std::move(answer);
    call.flight.reset();  // Here and not under the mutex, because it may be the last owner of a value.
  }
}

// InvalidArgument: the call's loader is empty.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::CopyLoader(const MakeLoader& make_loader) const -> absl::StatusOr<LoaderPtr> {
  absl::StatusOr<LoaderPtr> loader = make_loader();
  if (loader.ok() && !**loader) return EmptyLoaderError(options_.name);
  return loader;
}

template <typename Key, typename Value, typename Hash, typename Eq>
inline auto CacheCore<Key, Value, Hash, Eq>::GetIfPresent(const Key& key) -> std::optional<Handle> {
  try {
    return FindOr<std::optional<Handle>>(key, [&](const Look& look) { return FindIfPresent(key, look); });
  } catch (...) {
    LogThrown("GetIfPresent() finds nothing");
    return std::nullopt;
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindIfPresent(const Key& key, const Look& look) -> std::optional<Handle> {
  CheckFork();
  HazardRow::Read read = Open(look);
  if (const Entry* const entry = FindUnlocked(key, look, read)) return Handle(*read.row(), *entry);
  const HashedKey at = Hashed(key);
  CallGate::Call inside(*gate_, at.shard);
  if (!inside.inside()) return std::nullopt;
  read.End();
  Aftermath after(*this);
  ReadHold reading;
  CacheMetric result = kRequestMiss;
  std::optional<RefreshTrigger> due;
  std::optional<Answer> answer;
  if (!options_.strict || TakeReadLock(at.hash, Instant::InfinitePast(), reading)) {
    const Instant now = Now();
    Shard& shard = shards_[at.shard];
    const ShardLock lock = Lock(shard);
    answer = Serve(at, now, false, result, due);
    Entry* const entry = answer.has_value() ? nullptr : FindEntry(at);
    if (entry != nullptr && entry->times.Over(now)) Remove(shard, *entry, RemovalCause::kExpired, after);
  }
  Count(result);
  if (due.has_value()) StartRefresh(at, *due, nullptr);
  if (!answer.has_value() || !answer->ok()) return std::nullopt;
  return Handle(**std::move(answer));
}

// The answer of the table at `now`. Returns nothing if a load is needed. An expired entry stays, because the load may
// find that its value is still valid. Called with the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Serve(const HashedKey& at, Instant now, bool stale_too, CacheMetric& result,
                                            std::optional<RefreshTrigger>& due) -> std::optional<Answer> {
  Entry* const entry = FindEntry(at);
  if (entry == nullptr) return std::nullopt;
  const bool fresh = now < entry->times.expires_at;
  if (!fresh) {
    if (!stale_too || entry->value == nullptr) return std::nullopt;
    const bool backs_off = now < entry->times.retry_at && now < entry->times.stale_until;
    if (now >= entry->times.revalidate_until && !backs_off) return std::nullopt;
  }
  entry->Touch();
  if (entry->value == nullptr) {
    result = kRequestNegative;
    return entry->absence;
  }
  result = fresh ? kRequestHit : kRequestStale;
  if (entry->times.MayBeDue(now)) {
    const FlightPtr current = Current(at);
    if (current == nullptr || IsHung(*current, now)) due = freshness_.Due(entry->times, now);
  }
  return entry->value;
}

// Loads in the background unless the key is being loaded. Except with a manual trigger, also does nothing if the value
// is no longer due.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::StartRefresh(const HashedKey& at, RefreshTrigger trigger,
                                                   LoaderPtr loader) noexcept {
  if (loader == nullptr && !HasLoader()) return;
  if (const absl::Status started = StartRefreshThreads(); !started.ok()) return LogNoRefresh(started);
  try {
    Aftermath after(*this);
    const Instant now = Now();
    Shard& shard = shards_[at.shard];
    const ShardLock lock = Lock(shard);
    if (shard.closed) return;
    TimeOutHung(at, now, after);
    if (trigger == RefreshTrigger::kManual) {
      Entry* const entry = FindEntry(at);
      if (entry != nullptr && entry->IsError()) Remove(shard, *entry, RemovalCause::kInvalidated, after);
    }
    if (Current(at) != nullptr) return;
    if (trigger != RefreshTrigger::kManual) {
      const Entry* const entry = FindEntry(at);
      if (entry == nullptr || entry->value == nullptr || !entry->times.MayBeDue(now)) return;
    }
    const FlightPtr flight = StartFlight(at, std::move(loader), now);
    flight->in_background = true;
    if (flight->phase == Phase::kReady) QueueUp(flight, now, after);
    CountRefresh(trigger);
  } catch (...) {
    LogThrown("a refresh does not start");
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Refresh(const Key& key) {
  CheckFork();
  try {
    const HashedKey at = Hashed(key);
    CallGate::Call inside(*gate_, at.shard);
    if (inside.inside()) StartRefresh(at, RefreshTrigger::kManual, nullptr);
  } catch (...) {
    LogThrown("a refresh does not start");
  }
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOOKUP_H_
