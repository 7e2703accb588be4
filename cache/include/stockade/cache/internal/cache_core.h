#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/internal/cache_base.h"
#include "stockade/cache/internal/entry_table.h"
#include "stockade/cache/internal/flight_table.h"
#include "stockade/cache/load_context.h"

namespace stockade::internal {

// LoadingCache without its options' checks. The public class documents the calls.
//
// A key belongs to one shard; its mutex guards the key's entry and its flights, so that looking a key up and joining or
// beginning its flight is one step, and so is storing a result and ending the flight. Under the mutex run no loader, no
// weigher, no executor and no value's destructor; two shards' mutexes are never held together.
template <typename Key, typename Value, typename Hash, typename Eq>
class CacheCore final : public CacheBase {
 public:
  using Loader = std::function<absl::StatusOr<Value>(const Key&, LoadContext&)>;
  using Weigher = std::function<int64_t(const Key&, const Value&)>;

  CacheCore(LoadingCacheOptions options, Loader loader, Weigher weigher)
      : CacheBase(std::move(options)), loader_(std::move(loader)), weigher_(std::move(weigher)) {}

  absl::StatusOr<CacheHandle<Value>> Get(const Key& key, const CacheGetOptions& options);
  std::optional<CacheHandle<Value>> GetIfPresent(const Key& key);
  void Put(const Key& key, Value value, std::optional<absl::Duration> ttl);
  void Invalidate(const Key& key);
  void InvalidateAll();
  // Once, before the destructor.
  void Shutdown();

 private:
  using Table = EntryTable<Key, Value, Hash, Eq>;
  using Entry = typename Table::Entry;
  using Entries = typename Table::Entries;
  using Flights = FlightTable<Key, Value, Hash, Eq>;
  using FlightT = typename Flights::FlightT;
  using FlightPtr = typename Flights::FlightPtr;
  using Phase = typename FlightT::Phase;
  using Answer = absl::StatusOr<std::shared_ptr<const Value>>;

  struct alignas(64) Shard {
    std::mutex mutex;
    Table entries;        // Guarded by mutex.
    Flights flights;      // Guarded by mutex.
    bool closed = false;  // Guarded by mutex. No flight begins any more.
  };

  static std::unique_lock<std::mutex> Lock(Shard& shard) {
    SyncPoint();
    return std::unique_lock(shard.mutex);
  }

  size_t ShardOf(const Key& key) const {
    // std::hash of a number is the number: the multiplication spreads it.
    return (uint64_t{Hash()(key)} * 0x9E3779B97F4A7C15 >> 32) & (shard_count_ - 1);
  }

  // Lookups; with the shard's mutex held.
  std::optional<Answer> Serve(size_t shard, const Key& key, Instant now, bool stale_too, Entries& removed,
                              FlightPtr& refresh);

  // Loads (cache_core_loads.h).
  Answer LoadOrJoin(size_t shard, const Key& key, std::unique_lock<std::mutex>& lock, Instant begun, Instant deadline);
  bool AsksForItself(const Key& key) const;
  void Run(const FlightPtr& flight, Instant caller_deadline);
  void Submit(Executor* executor, FlightPtr flight);
  void Publish(const FlightPtr& flight, Answer loaded, std::optional<absl::Duration> ttl);
  void ReplaceError(Shard& shard, FlightT& flight, Instant now, Answer& error);

  // Entries (cache_core_entries.h).
  Entries MakeEntry(const Key& key, std::shared_ptr<const Value> value, std::optional<absl::Duration> ttl, Instant now);
  Entries MakeAbsence(const Key& key, const absl::Status& absence, Instant now);
  std::optional<int64_t> Weigh(const Key& key, const Value& value);
  const Entry* Replace(Shard& shard, const Key& key, Entries& fresh, Entries& removed, Instant now);
  void Remove(Shard& shard, const Entry& entry, Entries& removed);
  void Trim(const Entry* spared);
  bool EvictOne(size_t shard, const Entry* spared);

  const Loader loader_;
  const Weigher weigher_;
  // Fewer for a small bound, so that what is evicted is near to what was used longest ago. A power of two.
  const size_t shard_count_ =
      std::clamp<size_t>(std::bit_floor(static_cast<uint64_t>(options_.max_weight) / 64), 1, CallGate::kStripes);
  const std::unique_ptr<Shard[]> shards_ = std::make_unique<Shard[]>(shard_count_);
  std::atomic<size_t> next_victim_{0};  // The shard that evicts next.
};

template <typename Key, typename Value, typename Hash, typename Eq>
absl::StatusOr<CacheHandle<Value>> CacheCore<Key, Value, Hash, Eq>::Get(const Key& key,
                                                                        const CacheGetOptions& options) {
  CheckFork();
  const size_t index = ShardOf(key);
  CallGate::Call call(*gate_, index);
  if (!call.inside()) return CancelledError();
  const Instant now = Now();
  Entries removed;
  FlightPtr refresh;
  std::unique_lock lock = Lock(shards_[index]);
  std::optional<Answer> answer = Serve(index, key, now, true, removed, refresh);
  if (!answer.has_value()) answer = LoadOrJoin(index, key, lock, now, now + options.timeout);
  if (lock.owns_lock()) lock.unlock();
  if (refresh != nullptr) Submit(RefreshExecutor(), std::move(refresh));
  if (!answer->ok()) return answer->status();
  return CacheHandle<Value>(**std::move(answer));
}

template <typename Key, typename Value, typename Hash, typename Eq>
std::optional<CacheHandle<Value>> CacheCore<Key, Value, Hash, Eq>::GetIfPresent(const Key& key) {
  CheckFork();
  const size_t index = ShardOf(key);
  CallGate::Call call(*gate_, index);
  if (!call.inside()) return std::nullopt;
  const Instant now = Now();
  Entries removed;
  FlightPtr refresh;
  std::unique_lock lock = Lock(shards_[index]);
  std::optional<Answer> answer = Serve(index, key, now, false, removed, refresh);
  lock.unlock();
  if (!answer.has_value()) Count(kRequestMiss);
  if (refresh != nullptr) Submit(RefreshExecutor(), std::move(refresh));
  if (!answer.has_value() || !answer->ok()) return std::nullopt;
  return CacheHandle<Value>(**std::move(answer));
}

// What the table answers at `now`, counted; nothing: it takes a load. `refresh`: a flight to be submitted.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Serve(size_t index, const Key& key, Instant now, bool stale_too, Entries& removed,
                                            FlightPtr& refresh) -> std::optional<Answer> {
  Shard& shard = shards_[index];
  Entry* const entry = shard.entries.Find(key);
  if (entry == nullptr) return std::nullopt;
  if (now < entry->times.expires_at) {
    shard.entries.Touch(*entry);
    if (entry->value == nullptr) {
      Count(kRequestNegative);
      return entry->absence;
    }
    Count(kRequestHit);
    if (now >= entry->times.refresh_at && now >= entry->times.retry_at && !shard.closed && shard.flights.Idle(key)) {
      refresh = shard.flights.Start(this, key, index);
      refresh->on_refresh_executor = true;
      flights_.fetch_add(1, std::memory_order_relaxed);
      Count(kRefreshAhead);
    }
    return entry->value;
  }
  if (now >= entry->times.stale_until) {
    Count(kEvictionExpired);
    Remove(shard, *entry, removed);
  } else if (stale_too && now < entry->times.retry_at) {
    shard.entries.Touch(*entry);
    Count(kRequestStale);
    return entry->value;
  }
  return std::nullopt;
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Put(const Key& key, Value value, std::optional<absl::Duration> ttl) {
  CheckFork();
  const size_t index = ShardOf(key);
  CallGate::Call call(*gate_, index);
  if (!call.inside()) return;
  const std::shared_ptr<const Value> pinned = std::make_shared<const Value>(std::move(value));
  const Instant now = Now();
  Entries fresh = MakeEntry(key, pinned, ttl, now);
  Entries removed;
  FlightPtr answered;
  const Entry* stored;
  {
    Shard& shard = shards_[index];
    const auto lock = Lock(shard);
    answered = shard.flights.Current(key);
    if (answered != nullptr) {
      if (!answered->answered) answered->Answer(pinned);
      if (answered->started()) {
        shard.flights.DetachRunning(key);
      } else {
        shard.flights.Drop(answered);
        flights_.fetch_sub(1, std::memory_order_relaxed);
      }
    }
    stored = Replace(shard, key, fresh, removed, now);
  }
  if (stored != nullptr) Trim(stored);
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Invalidate(const Key& key) {
  CheckFork();
  const size_t index = ShardOf(key);
  CallGate::Call call(*gate_, index);
  if (!call.inside()) return;
  Entries removed;
  Shard& shard = shards_[index];
  const auto lock = Lock(shard);
  if (const Entry* const entry = shard.entries.Find(key); entry != nullptr) {
    Count(kEvictionInvalidated);
    Remove(shard, *entry, removed);
  }
  shard.flights.DetachRunning(key);
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::InvalidateAll() {
  CheckFork();
  for (size_t index = 0; index < shard_count_; ++index) {
    CallGate::Call call(*gate_, index);
    if (!call.inside()) return;
    Entries removed;
    Shard& shard = shards_[index];
    {
      const auto lock = Lock(shard);
      shard.entries.RemoveAll(removed);
      shard.flights.DetachAllRunning();
    }
    for (const Entry& entry : removed) {
      AddEntries(-1, -entry.weight);
      Count(kEvictionInvalidated);
    }
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Shutdown() {
  CheckNotInLoader();
  gate_->Close();
  for (size_t index = 0; index < shard_count_; ++index) {
    const auto lock = Lock(shards_[index]);
    shards_[index].closed = true;
    shards_[index].flights.ForEach([&](FlightT& flight) {
      if (!flight.answered) flight.Answer(CancelledError());
    });
  }
  gate_->AwaitEmpty();
  StopRefreshes();
}

}  // namespace stockade::internal

#include "stockade/cache/internal/cache_core_entries.h"  // IWYU pragma: export
#include "stockade/cache/internal/cache_core_loads.h"    // IWYU pragma: export

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_
