#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOOKUP_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOOKUP_H_

// Bodies of CacheCore: lookups, and the refreshes that they set off. Included by cache_core.h.

#include "stockade/cache/internal/cache_core.h"

namespace stockade::internal {

// The hit path: no lock, no read-modify-write, and no store to what other threads write but the first few marks of an
// entry's use. What it does not answer, which is what is not there, expired or due, `otherwise` does, and an Eq or a
// clock that asks a cache from within a hit. It is not inside the gate: AwaitReads() is what the destructor waits with
// for this one, and `otherwise` enters the gate before it ends the read, if it is given one.
template <typename Key, typename Value, typename Hash, typename Eq>
template <typename Result, typename Otherwise>
inline Result CacheCore<Key, Value, Hash, Eq>::FindOr(const Key& key, const Otherwise& otherwise) {
  CheckFork();
  const uint32_t slot = ThisThreadSlot();
  HazardRow* const row = HazardRowOf(slot);
  if (row == nullptr || options_.strict || row->caller.load(std::memory_order_relaxed) != nullptr) {
    return otherwise(nullptr);
  }
  HazardRow::Read read(*row, this);
  const uint64_t hash = HashOf(key);
  Entry* const entry = shards_[ShardOfHash(hash)].entries.FindUnlocked(hash, key, *row);
  if (entry != nullptr && IsQuiet(*entry)) {
    CountHit(slot);
    entry->Touch();
    return Handle(*row, *entry);
  }
  return otherwise(&read);
}

// The entry is neither expired nor due. The coarse clock may be a tick late: near the end the exact one decides.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::IsQuiet(const Entry& entry) const {
  if (entry.quiet_until == Instant::InfiniteFuture()) return true;
  const int64_t latest = options_.clock->CoarseNow().nanoseconds() + kLongestTick;
  return latest < entry.quiet_until.nanoseconds() || Now() < entry.quiet_until;
}

template <typename Key, typename Value, typename Hash, typename Eq>
inline auto CacheCore<Key, Value, Hash, Eq>::Get(const Key& key) -> absl::StatusOr<Handle> {
  return FindOr<absl::StatusOr<Handle>>(key,
                                        [&](HazardRow::Read* read) { return Find(key, default_call_, nullptr, read); });
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Get(const Key& key, const CacheGetOptions& options, const MakeLoader* make_loader)
    -> absl::StatusOr<Handle> {
  return FindOr<absl::StatusOr<Handle>>(key,
                                        [&](HazardRow::Read* read) { return Find(key, options, make_loader, read); });
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::NewCall(const CacheGetOptions& options) const -> Call {
  const Instant now = Now();
  return {.begun = now, .deadline = now + options.timeout, .stop = options.stop};
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Find(const Key& key, const CacheGetOptions& options,
                                           const MakeLoader* make_loader, HazardRow::Read* read)
    -> absl::StatusOr<Handle> {
  const size_t index = ShardOf(key);
  CallGate::Call inside(*gate_, index);
  if (!inside.inside()) return CancelledError();
  if (read != nullptr) read->End();
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
  return FindOr<std::optional<Handle>>(key, [&](HazardRow::Read* read) { return FindIfPresent(key, read); });
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindIfPresent(const Key& key, HazardRow::Read* read) -> std::optional<Handle> {
  const size_t index = ShardOf(key);
  CallGate::Call inside(*gate_, index);
  if (!inside.inside()) return std::nullopt;
  if (read != nullptr) read->End();
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
