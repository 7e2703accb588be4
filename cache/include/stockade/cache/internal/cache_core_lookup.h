#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOOKUP_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOOKUP_H_

// Bodies of CacheCore: lookups, and the refreshes that they set off. Included by cache_core.h.

#include "stockade/cache/internal/cache_core.h"

namespace stockade::internal {

// The hit path: no lock, no read-modify-write, and no store to what other threads write but the first few marks of an
// entry's use. It is not inside the gate: AwaitReads() is what the destructor waits with for this one.
//
// Here the plainest hits, in as few instructions as can be, for what a core can do while it waits for memory is bounded
// by their number. `otherwise` goes on with the rest; it is given the read, and what that has found.
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

// The hits that take a clock or some more looking. Null: the call has to look under the mutex; so has an Eq or a clock
// that asks a cache from within a hit. `read` protects the entry and is open in any case where the thread may read.
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

// The entry is neither expired nor due. The coarse clock may be a tick late: near the end the exact one decides.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::IsQuiet(const Entry& entry) const {
  if (entry.quiet_until == Instant::InfiniteFuture()) return true;
  if (entry.quiet_until == Instant::InfinitePast()) return false;
  const int64_t latest = options_.clock->CoarseNow().nanoseconds() + kLongestTick;
  return latest < entry.quiet_until.nanoseconds() || Now() < entry.quiet_until;
}

template <typename Key, typename Value, typename Hash, typename Eq>
inline auto CacheCore<Key, Value, Hash, Eq>::Get(const Key& key) -> absl::StatusOr<Handle> {
  return FindOr<absl::StatusOr<Handle>>(key, [&](const Look& look) { return Find(key, default_call_, nullptr, look); });
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Get(const Key& key, const CacheGetOptions& options, const MakeLoader* make_loader)
    -> absl::StatusOr<Handle> {
  return FindOr<absl::StatusOr<Handle>>(key, [&](const Look& look) { return Find(key, options, make_loader, look); });
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
  const size_t index = ShardOf(key);
  CallGate::Call inside(*gate_, index);
  if (!inside.inside()) return CancelledError();
  read.End();
  Call call = NewCall(options);
  Answer answer = Find(index, key, call, make_loader);
  CountRequest(call);
  if (!answer.ok()) return answer.status();
  return Handle(*std::move(answer));
}

// Blocks where it takes a load. Sets what the call counts as, and does not count it.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Find(size_t index, const Key& key, Call& call, const MakeLoader* make_loader)
    -> Answer {
  ReadHold reading;
  if (options_.strict && !TakeReadLock(key, call.deadline, reading)) return DeadlineError();
  Shard& shard = shards_[index];
  for (;;) {
    const Instant now = Now();
    Aftermath after(*this);
    ShardLock lock = Lock(shard);
    std::optional<RefreshTrigger> due;
    if (std::optional<Answer> served = Serve(shard, key, now, true, call.result, due)) {
      lock.unlock();
      if (due.has_value()) {
        absl::StatusOr<LoaderPtr> loader = make_loader != nullptr ? (*make_loader)() : nullptr;
        if (loader.ok()) StartRefresh(index, key, *due, *std::move(loader));
      }
      return *std::move(served);
    }
    call.result = kRequestMiss;
    if (TimeOutHung(shard, key, now, after)) continue;
    if (make_loader != nullptr && call.loader == nullptr && shard.flights.Current(key) == nullptr) {
      lock.unlock();
      absl::StatusOr<LoaderPtr> loader = (*make_loader)();
      if (!loader.ok()) return loader.status();
      call.loader = *std::move(loader);
      continue;
    }
    if (absl::Status refusal = Join(index, key, call, now); !refusal.ok()) return refusal;
    Sit(call);
    if (std::optional<Answer> answer = Await(key, call, lock, after)) return *std::move(answer);
    call.flight.reset();  // Here and not under the mutex: it may be the last to hold a value.
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::GetIfPresent(const Key& key) -> std::optional<Handle> {
  return FindOr<std::optional<Handle>>(key, [&](const Look& look) { return FindIfPresent(key, look); });
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindIfPresent(const Key& key, const Look& look) -> std::optional<Handle> {
  CheckFork();
  HazardRow::Read read = Open(look);
  if (const Entry* const entry = FindUnlocked(key, look, read)) return Handle(*read.row(), *entry);
  const size_t index = ShardOf(key);
  CallGate::Call inside(*gate_, index);
  if (!inside.inside()) return std::nullopt;
  read.End();
  Aftermath after(*this);
  ReadHold reading;
  CacheMetric result = kRequestMiss;
  std::optional<RefreshTrigger> due;
  std::optional<Answer> answer;
  if (!options_.strict || TakeReadLock(key, Instant::InfinitePast(), reading)) {
    const Instant now = Now();
    Shard& shard = shards_[index];
    const ShardLock lock = Lock(shard);
    answer = Serve(shard, key, now, false, result, due);
    Entry* const entry = answer.has_value() ? nullptr : FindEntry(shard, key);
    if (entry != nullptr && entry->times.Over(now)) Remove(shard, *entry, RemovalCause::kExpired, after);
  }
  Count(result);
  if (due.has_value()) StartRefresh(index, key, *due, nullptr);
  if (!answer.has_value() || !answer->ok()) return std::nullopt;
  return Handle(**std::move(answer));
}

// What the table answers at `now`; nothing: it takes a load. An expired entry stays: the load may find that it is still
// good. With the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Serve(Shard& shard, const Key& key, Instant now, bool stale_too,
                                            CacheMetric& result, std::optional<RefreshTrigger>& due)
    -> std::optional<Answer> {
  Entry* const entry = FindEntry(shard, key);
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
    const FlightPtr current = shard.flights.Current(key);
    if (current == nullptr || IsHung(*current, now)) due = freshness_.Due(entry->times, now);
  }
  return entry->value;
}

// Loads in the background, unless the key is being loaded or, but for a manual trigger, its value is no longer the one
// that was found due.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::StartRefresh(size_t index, const Key& key, RefreshTrigger trigger,
                                                   LoaderPtr loader) {
  if (loader == nullptr && !HasLoader()) return;
  Aftermath after(*this);
  const Instant now = Now();
  Shard& shard = shards_[index];
  const ShardLock lock = Lock(shard);
  if (shard.closed) return;
  TimeOutHung(shard, key, now, after);
  if (shard.flights.Current(key) != nullptr) return;
  if (trigger != RefreshTrigger::kManual) {
    const Entry* const entry = FindEntry(shard, key);
    if (entry == nullptr || entry->value == nullptr || !entry->times.MayBeDue(now)) return;
  }
  const FlightPtr flight = StartFlight(index, key, std::move(loader), now);
  flight->in_background = true;
  if (flight->phase == Phase::kReady) QueueUp(flight, now, after);
  CountRefresh(trigger);
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Refresh(const Key& key) {
  CheckFork();
  const size_t index = ShardOf(key);
  CallGate::Call inside(*gate_, index);
  if (inside.inside()) StartRefresh(index, key, RefreshTrigger::kManual, nullptr);
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOOKUP_H_
