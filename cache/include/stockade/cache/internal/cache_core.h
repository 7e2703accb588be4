#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/mutex.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/cache_callbacks.h"
#include "stockade/cache/internal/cache_base.h"
#include "stockade/cache/internal/cache_call.h"
#include "stockade/cache/internal/entry_table.h"
#include "stockade/cache/internal/flight_table.h"
#include "stockade/cache/internal/retired_entries.h"
#include "stockade/cache/internal/update_frame.h"
#include "stockade/locks/keyed_shared_mutex.h"

namespace stockade::cache_internal {

// LoadingCache without the checks of its options. The public class documents the calls.
//
// A key belongs to one shard, whose mutex guards the key's entry and flights. A look-up together with joining or
// starting a flight is therefore one step, and so is storing a result together with ending its flight. No callback,
// executor or destructor of a value runs under the mutex: such work is put into an Aftermath, which is created before
// the mutex is locked. The mutexes of two shards are never held together.
//
// Functions that are not noexcept pass on the exceptions of keys, Hash and Eq, and the calls of the public class turn
// them into a status or log them. Functions that must answer a caller are noexcept: those that run or end a flight, and
// those that give up a waiter's place.
template <typename Key, typename Value, typename Hash, typename Eq>
class CacheCore final : public CacheBase {
 public:
  using Callbacks = CacheCallbacks<Key, Value, Hash, Eq>;
  using Handle = CacheHandle<Value>;
  using LoaderPtr = std::shared_ptr<const typename Callbacks::Loader>;
  // Copies the loader of a call; an exception becomes the status.
  using MakeLoader = absl::FunctionRef<absl::StatusOr<LoaderPtr>()>;
  using Async = AsyncCall<Key, Value, Eq>;

  CacheCore(LoadingCacheOptions options, Callbacks callbacks)
      : CacheBase(std::move(options)), callbacks_(std::move(callbacks)) {}

  [[gnu::always_inline]] absl::StatusOr<Handle> Get(const Key& key);
  [[gnu::always_inline]] absl::StatusOr<Handle> Get(const Key& key, const CacheGetOptions& options,
                                                    const MakeLoader* make_loader);
  [[gnu::always_inline]] std::optional<Handle> GetIfPresent(const Key& key);
  std::vector<absl::StatusOr<Handle>> GetAll(const std::vector<Key>& keys, const CacheGetOptions& options);
  void GetAsync(const Key& key, Executor& executor, typename Async::Done done, const CacheGetOptions& options);
  void Refresh(const Key& key);
  absl::StatusOr<WarmUpReport> WarmUp(const std::vector<Key>& keys, const WarmUpOptions& options);
  void Put(const Key& key, Value&& value, EntryOptions entry);
  void Invalidate(const Key& key);
  void InvalidateTag(std::string_view tag);
  void InvalidateAll();
  absl::Status UpdateThrough(const Key& key, absl::FunctionRef<absl::Status()> write, absl::Duration timeout);
  // Called once, before the destructor.
  void Shutdown();

 private:
  using Table = EntryTable<Key, Value, Eq>;
  using Entry = typename Table::Entry;
  using Owned = typename Table::Owned;
  using Entries = typename Table::Entries;
  using Flights = FlightTable<Key, Value, Eq>;
  using FlightT = typename Flights::FlightT;
  using FlightPtr = typename Flights::FlightPtr;
  using Phase = typename FlightT::Phase;
  using Call = CacheCall<Key, Value, Eq>;
  using AsyncPtr = std::shared_ptr<Async>;
  using Reply = AsyncReply<Value>;
  using Pinned = cache_internal::Pinned<Value>;
  using Answer = absl::StatusOr<Pinned>;
  using Batch = typename Callbacks::Batch;
  // By hash, because the release of a lock must not run a Hash or Eq, which may throw. Keys with the same hash share a
  // lock.
  using KeyLocks = KeyedSharedMutex<uint64_t>;
  using ShardLock = std::unique_lock<Mutex>;

  // A walk over the entries of a shard that looks for entries past all their deadlines (cache_core_sweep.h). Invariant:
  // no entry is over before `over_at`. Of the entries that the walk has passed and those stored since it began, none is
  // over before `passed_over_at`.
  struct Walk {
    Instant over_at = Instant::InfiniteFuture();
    Instant passed_over_at = Instant::InfiniteFuture();
    uint64_t position = 0;
  };

  // The number of a tag's entries that are removed while the mutex is held once.
  static constexpr size_t kStep = 256;
  // An upper bound of the tick of a clock's CoarseNow(), in nanoseconds.
  static constexpr int64_t kLongestTick = 10'000'000;
  // The number of homes that a store checks when a sweep is due.
  static constexpr size_t kSweptByStore = 16;

  // The updates of the keys of one hash, those that wait for their lock included.
  struct Updates {
    int under_way = 0;           // More than 0.
    std::list<AsyncPtr> parked;  // Strict calls of GetAsync() that wait for the end of one.
  };

  struct alignas(64) Shard {
    Table entries;    // Guarded by mutex, except for lookups of hits, which read its first line.
    Flights flights;  // Guarded by mutex.
    Walk walk;        // Guarded by mutex.
    Mutex mutex;
    // Strict calls of GetAsync() for which a task is in the queue of async_read_pool_, or is about to be. Guarded by
    // mutex.
    std::list<AsyncPtr> ready;
    std::unordered_map<uint64_t, Updates> updates;  // If options.strict, by the key's hash. Guarded by mutex.
    int clearings = 0;    // Guarded by mutex. Invalidations of a tag or of all keys in progress.
    bool closed = false;  // Guarded by mutex. No flight begins any more.
  };

  // Work that changes under a mutex leave for the time after it. It includes user code, so it must not run before this
  // thread has published everything that other threads or that code may wait for. The destructor does the work.
  struct Aftermath {
    explicit Aftermath(CacheCore& c) : core(c) {}
    ~Aftermath() { core.Settle(*this); }
    Aftermath(const Aftermath&) = delete;
    Aftermath& operator=(const Aftermath&) = delete;

    CacheCore& core;
    Entries removed;
    Entries renewed;                 // Replaced entries whose values stay in the cache.
    std::vector<FlightPtr> dropped;  // Their last owner may have to run a destructor.
    std::vector<FlightPtr> for_load_executor;
    std::vector<FlightPtr> for_refresh_executor;
    std::list<std::shared_ptr<FlightWaiter>> woken;  // Their flights are answered.
    std::vector<AsyncPtr> answered;                  // Their flights are answered.
    bool stored_mortal = false;                      // A stored entry expires.
    bool may_exceed = false;                         // A stored entry may exceed max_weight.
  };

  // A key and its hash, which is computed once per call.
  struct HashedKey {
    const Key& key;
    uint64_t hash;
    size_t shard;
  };

  // A read lock of strict mode, or none.
  struct ReadHold {
    std::optional<typename KeyLocks::Guard> guard;
    std::optional<StrictReadFrame> frame;
  };

  // Adds one to the number of waiters from Count() on.
  class WaiterCount {
   public:
    explicit WaiterCount(std::atomic<int64_t>& waiters) : waiters_(waiters) {}
    ~WaiterCount() {
      if (counted_) waiters_.fetch_sub(1, std::memory_order_relaxed);
    }
    WaiterCount(const WaiterCount&) = delete;
    WaiterCount& operator=(const WaiterCount&) = delete;

    bool counted() const { return counted_; }
    void Count() {
      if (!std::exchange(counted_, true)) waiters_.fetch_add(1, std::memory_order_relaxed);
    }

   private:
    std::atomic<int64_t>& waiters_;
    bool counted_ = false;
  };

  // The state of a lookup without a lock.
  struct Look {
    HazardRow* open = nullptr;  // The thread's row, in a HazardRow::Read of this cache. Null: there is no read.
    Entry* entry = nullptr;     // The key's entry, protected by `open`. Null: none was found yet.
  };

  // The caller that a loader runs for: the call whose thread runs it, or none.
  struct Runner {
    Instant deadline = Instant::InfiniteFuture();
    std::stop_token stop = {};
  };

  // The result of a loader for one key.
  struct Loaded {
    Answer answer;
    EntryOptions entry;
    absl::Duration took;
    Instant ended;
  };

  class BatchNode;
  class UpdateMark;
  class Clearing;
  class QueuedLoad;
  struct Notices;

  static ShardLock Lock(Shard& shard) {
    SyncPoint();
    return ShardLock(shard.mutex);
  }
  // std::hash of a number is the number itself. The two halves of a product spread it over all bits (Wang Yi's wyhash).
  // The index uses the lowest and the 16 highest bits, the shards use others.
  static uint64_t HashOf(const Key& key) {
    __extension__ using Product = unsigned __int128;
    const Product product = Product{uint64_t{Hash()(key)}} * 0x9E3779B97F4A7C15;
    return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }
  size_t ShardOfHash(uint64_t hash) const { return (hash >> 40) & shard_mask_; }
  HashedKey Hashed(const Key& key) const {
    const uint64_t hash = HashOf(key);
    return {key, hash, ShardOfHash(hash)};
  }
  // For an object that has a key.
  static HashedKey KeyOf(const auto& holder) { return {holder.key, holder.hash, holder.shard}; }
  Entry* FindEntry(const HashedKey& at) { return shards_[at.shard].entries.Find(at.hash, at.key); }
  // Returns false if Eq threw, so that it is unknown whether there is an entry.
  bool TryFindEntry(const HashedKey& at, Entry*& entry) noexcept;
  // The entry of the key if it has a value. Also null if Eq throws.
  Entry* FindValue(const HashedKey& at) noexcept;
  FlightPtr Current(const HashedKey& at) const { return shards_[at.shard].flights.Current(at.hash, at.key); }
  bool HasLoader() const { return callbacks_.load || callbacks_.load_all; }
  void CountRequest(const Call& call);
  void Settle(Aftermath& after) noexcept;
  static void Wake(Aftermath& after);

  // Lookups (cache_core_lookup.h).
  template <typename Result, typename Otherwise>
  [[gnu::always_inline]] Result FindOr(const Key& key, const Otherwise& otherwise);
  Entry* FindUnlocked(const Key& key, Look look, HazardRow::Read& read);
  HazardRow::Read Open(const Look& look) const;
  bool IsQuiet(const Entry& entry) const;
  [[gnu::noinline]] absl::StatusOr<Handle> Find(const Key& key, const CacheGetOptions& options,
                                                const MakeLoader* make_loader, const Look& look);
  [[gnu::noinline]] std::optional<Handle> FindIfPresent(const Key& key, const Look& look);
  Call NewCall(const CacheGetOptions& options) const;
  Answer Find(const HashedKey& at, Call& call, const MakeLoader* make_loader) noexcept;
  Answer FindOrLoad(const HashedKey& at, Call& call, const MakeLoader* make_loader);
  absl::StatusOr<LoaderPtr> CopyLoader(const MakeLoader& make_loader) const;
  std::optional<Answer> Serve(const HashedKey& at, Instant now, bool stale_too, CacheMetric& result,
                              std::optional<RefreshTrigger>& due);
  void StartRefresh(const HashedKey& at, RefreshTrigger trigger, LoaderPtr loader) noexcept;

  // Flights (cache_core_flights.h).
  absl::Status Join(const HashedKey& at, Call& call, Instant now);
  FlightPtr StartFlight(const HashedKey& at, LoaderPtr loader, Instant now);
  void Begin(FlightT& flight, Instant now);
  std::optional<Answer> Await(Call& call, ShardLock& lock, Aftermath& after);
  std::optional<Answer> Expired(const Call& call, Instant now) const;
  std::optional<Answer> GiveUp(Call& call, Instant now, Aftermath& after);
  void DropIfUnwanted(Shard& shard, FlightT& flight, Aftermath& after);
  void Drop(Shard& shard, FlightT& flight, Aftermath& after);
  bool IsHung(FlightT& flight, Instant now) const;
  bool FlightT::*QueuedFlag(const Executor* executor) const {
    return executor == options_.load_executor ? &FlightT::on_load_executor : &FlightT::on_refresh_executor;
  }
  void Sit(Call& call);
  static void Rouse(FlightT& flight, bool relay);
  Executor* PreferredExecutor(const Call& call);
  bool MustRunHere(const Call& call);
  bool MayRunHere(const Call& call);
  Executor* ExecutorFor(const Call& call);
  void Leave(Shard& shard, const Call& call, Aftermath& after);
  void Abandon(Call& call) noexcept;
  absl::Status CheckNotItsOwn(const Key& key) const;
  void AnswerFlight(FlightT& flight, Answer answer, Aftermath& after);
  void Displace(Shard& shard, FlightT& flight, Aftermath& after);
  bool TimeOutHung(const HashedKey& at, Instant now, Aftermath& after);
  void Fail(FlightT& flight, Answer error, Instant now, Aftermath& after, const EntryOptions& entry = {}) noexcept;
  void ReplaceError(FlightT& flight, Entry* old, Instant now, Answer& error, Owned& remembered, Aftermath& after);

  // Loads (cache_core_loads.h).
  void Offer(Executor* executor, QueuedLoad load) noexcept;
  void Dropped(bool FlightT::*queued, std::vector<FlightPtr> flights) noexcept;
  void Refused(bool FlightT::*queued, const std::vector<FlightPtr>& flights) noexcept;
  std::optional<Answer> Run(const FlightPtr& flight, const Runner& runner) noexcept;
  std::optional<Answer> Publish(const FlightPtr& flight, Loaded loaded, const Runner& runner,
                                Aftermath& after) noexcept;
  bool BeginQueued(FlightT& flight, bool FlightT::*queued);
  void HandOn(const FlightPtr& flight, Instant now, Aftermath& after);
  void QueueUp(const FlightPtr& flight, Instant now, Aftermath& after);
  void MarkQueued(FlightT& flight, bool FlightT::*queued, Instant now);

  // Batches (cache_core_batch.h).
  struct Part;
  struct Claimed;
  std::vector<Part> PartsOf(const std::vector<Key>& keys, const Call& call, std::vector<size_t>& part_of) const;
  std::vector<absl::StatusOr<Handle>> FindAll(const std::vector<Key>& keys, const CacheGetOptions& options);
  void FindAll(std::span<Part> parts, const Runner& runner, bool warm_up);
  Answer AwaitPart(Part& part) noexcept;
  absl::StatusOr<WarmUpReport> LoadMissing(const std::vector<Key>& keys, const WarmUpOptions& options);
  void Open(Part& part, bool warm_up, Claimed& claimed) noexcept;
  void OpenOrThrow(Part& part, bool warm_up, Claimed& claimed);
  void QueueBatch(Executor* executor, std::vector<FlightPtr> flights);
  std::vector<FlightPtr> BeginAll(const std::vector<FlightPtr>& flights, bool FlightT::*queued);
  std::optional<Answer> RunBatch(const std::vector<FlightPtr>& flights, const Runner& runner) noexcept;

  // Calls without a thread (cache_core_async.h).
  absl::Status StartAsyncThreads(const Call& call);
  void StartAsync(const AsyncPtr& async) noexcept;
  std::optional<Answer> FindOrWait(const AsyncPtr& async);
  void WatchAsync(const AsyncPtr& async);
  void CheckAsync(const AsyncPtr& async) noexcept;
  void StopWatching(Async& async);
  void StopWaiting(Async& async);
  static void Deliver(std::shared_ptr<Reply> reply, Answer answer) noexcept;

  // Strict ones (cache_core_strict_async.h).
  void StartStrictAsync(const AsyncPtr& async) noexcept;
  std::optional<Answer> FindOrQueue(const AsyncPtr& async);
  void ScheduleRead(size_t shard) noexcept;
  AsyncPtr TakeReady(size_t shard);
  void ReadNext(size_t shard) noexcept;
  bool Park(const AsyncPtr& async);
  void EnterLobby(const AsyncPtr& async, std::list<AsyncPtr>& lobby);
  void LeaveLobby(Async& async);

  // Strict reads and updates (cache_core_updates.h).
  [[nodiscard]] bool TakeReadLock(uint64_t hash, Instant deadline, ReadHold& hold);
  void TakeReadLocks(std::span<Part> parts, Instant deadline, std::vector<typename KeyLocks::Guard>& guards);
  void InvalidateWithin(const HashedKey& at, Aftermath& after) noexcept;
  void InvalidateUnknown() noexcept;
  void Store(const Key& key, Value&& value, const EntryOptions& entry);

  // Entries (cache_core_entries.h).
  Owned MakeEntry(const HashedKey& at, const Pinned& value, const EntryOptions& options, absl::Duration load_time,
                  Instant now) noexcept;
  Owned MakeAbsence(const HashedKey& at, const absl::Status& absence, const EntryOptions& options,
                    Instant now) noexcept;
  std::optional<int64_t> Weigh(const Key& key, const Value& value);
  const Entry* Replace(Shard& shard, Entry* old, Owned fresh, RemovalCause cause, Aftermath& after, Instant now);
  void Remove(Shard& shard, Entry& entry, RemovalCause cause, Aftermath& after);
  void Trim(const Entry* spared, Aftermath& after);
  bool EvictOne(size_t shard, const Entry* spared, Aftermath& after);
  void Notify(Entries removed);
  void Retire(Entries entries);
  void PlanReclaim() noexcept;

  // Expired entries without requests (cache_core_sweep.h).
  Instant LeavesAt(const Entry& entry) const;
  void ExpectExpiry(Shard& shard, const Entry& stored, Aftermath& after);
  void SweepSome(Shard& shard, size_t homes, Instant now, Aftermath& after);
  void PlanSweep();
  void Sweep();
  void CheckNotInListener() const;

  const Callbacks callbacks_;
  const CacheGetOptions default_call_;
  // Fewer for a small bound, so that evicted entries are close to the least recently used ones. A power of two.
  const size_t shard_count_ =
      std::clamp<size_t>(std::bit_floor(static_cast<uint64_t>(options_.max_weight) / 64), 1, CallGate::kStripes);
  const size_t shard_mask_ = shard_count_ - 1;
  const std::unique_ptr<Shard[]> shards_ = std::make_unique<Shard[]>(shard_count_);
  // With a clock other than the system clock, entries are freed at once, so that a test with a ManualClock sees when
  // values are destroyed.
  RetiredEntries<Entry, Value> retired_{options_.max_weight / 100,
                                        options_.clock == Clock::System() ? options_.clock : nullptr};
  std::atomic<bool> reclaim_planned_{false};
  std::atomic<size_t> next_victim_{0};  // The shard that evicts next.
  KeyLocks key_locks_;                  // Held by updates and, if options_.strict, by reads.
};

}  // namespace stockade::cache_internal

#include "stockade/cache/internal/cache_core_async.h"         // IWYU pragma: export
#include "stockade/cache/internal/cache_core_batch.h"         // IWYU pragma: export
#include "stockade/cache/internal/cache_core_changes.h"       // IWYU pragma: export
#include "stockade/cache/internal/cache_core_entries.h"       // IWYU pragma: export
#include "stockade/cache/internal/cache_core_flights.h"       // IWYU pragma: export
#include "stockade/cache/internal/cache_core_loads.h"         // IWYU pragma: export
#include "stockade/cache/internal/cache_core_lookup.h"        // IWYU pragma: export
#include "stockade/cache/internal/cache_core_settle.h"        // IWYU pragma: export
#include "stockade/cache/internal/cache_core_strict_async.h"  // IWYU pragma: export
#include "stockade/cache/internal/cache_core_sweep.h"         // IWYU pragma: export
#include "stockade/cache/internal/cache_core_updates.h"       // IWYU pragma: export

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_
