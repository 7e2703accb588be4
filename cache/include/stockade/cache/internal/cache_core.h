#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/base/mutex.h"
#include "stockade/base/timer_queue.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/internal/cache_metrics.h"
#include "stockade/cache/internal/call_gate.h"
#include "stockade/cache/internal/erased.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/internal/slots.h"
#include "stockade/cache/load_context.h"
#include "stockade/cache/loading_cache_options.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::cache_internal {

struct Flight;
struct CacheCall;
class Waiter;
struct AsyncCall;
struct AsyncReply;
enum class LoadQueue : uint8_t;
class EntryTable;
class KeyLocks;

STOCKADE_EXPORT absl::Status EmptyLoaderError(std::string_view name);
[[noreturn]] STOCKADE_EXPORT void FatalStatus(const absl::Status& status);

// A LoadingCache without its types and without the checks of its options. The public class documents the calls;
// TypedCache answers hits and runs the user's functions.
//
// A key belongs to one shard, whose mutex guards the key's entry and flights. A look-up together with joining or
// starting a flight is therefore one step, and so is storing a result together with ending its flight. No callback,
// executor or destructor of a value runs under the mutex: such work is put into an AfterUnlock, which is created before
// the mutex is locked. The mutexes of two shards are never held together.
//
// Functions that are not noexcept pass on the exceptions of keys, Hash and Eq, and std::bad_alloc, and the calls of the
// public class turn them into a status or log them: ThrownError() and LogThrown() say what of. Functions that must
// answer a caller are noexcept: those that run or end a flight, and those that give up a waiter's place. They need no
// memory for that: what an entry, a box or a flight needs in order to leave is a part of it since it was made, and an
// error for whose text there is no memory has no text.
class STOCKADE_EXPORT CacheCore {
 public:
  // Copies the loader of a call; an exception becomes the status.
  using MakeLoader = absl::FunctionRef<absl::StatusOr<LoaderPtr>()>;

  // The functions of the user that there are, and a property of the types.
  struct Has {
    bool load;
    bool load_all;
    bool weigh;
    bool on_removal;
    bool key_boxes;  // An entry has a box for its key only: see SlotOf.
  };

  CacheCore(LoadingCacheOptions&& options, Has has, Slab::Type slots);
  virtual ~CacheCore();
  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  bool InForkedChild() const { return fork_guard_.InForkedChild(); }
  int64_t size() const;
  int64_t weight() const;
  void InvalidateTag(std::string_view tag) STOCKADE_EXCLUDES(kShardMutex);
  void InvalidateAll() STOCKADE_EXCLUDES(kShardMutex);
  absl::Status AwaitInvalidations(absl::Duration timeout);
  // Called once, before the destructor.
  void Shutdown() STOCKADE_EXCLUDES(kShardMutex);
  // Called once, before all calls: joins the tier of the options, if there is one.
  absl::Status OpenTier();
  // The same for a cache with a tier.
  static absl::Status JoinTier(CacheCore& core);

 protected:
  void CheckFork() const { fork_guard_.Check("LoadingCache", options_.name); }
  Instant Now() const { return options_.clock->Now(); }
  void Count(CacheMetric metric) { metrics_.Add(metric); }
  // Counts kRequestHit if one load and one store are enough. Otherwise returns false and counts nothing.
  bool TryCountHit() { return cells_ == nullptr || cells_->TryAdd(ThisThreadSlotIfAny(), hit_cell_, 1); }

  absl::Status CancelledError() const noexcept;
  absl::Status NoMemoryError() const noexcept;
  [[noreturn]] void NoCallbackFatal() const;
  // Called in a catch clause: reports an exception as a status, or logs it with its consequence. It is kInternal if
  // user code threw it, and ResourceExhausted if it is std::bad_alloc.
  absl::Status ThrownError() const noexcept;
  void LogThrown(std::string_view consequence) const noexcept;
  // Runs a piece of work of the library, in which user code that `what` names may throw.
  template <typename Result, typename Work>
  Result Guarded(std::string_view what, const Work& work) const noexcept {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return NoMemoryError();
    } catch (...) {
      return base_internal::GuardCallback<Result>(what, []() -> Result { throw; });
    }
  }

  // The calls; the caller is inside the gate, except for GetAsync().
  Answer Find(const KeyAt& at, const CacheGetOptions& options, const MakeLoader* make_loader) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Pinned> FindIfPresent(const KeyAt& at) STOCKADE_EXCLUDES(kShardMutex);
  // Each key once.
  std::vector<Answer> FindAll(const std::vector<KeyAt>& keys, const CacheGetOptions& options)
      STOCKADE_EXCLUDES(kShardMutex);
  absl::StatusOr<WarmUpReport> WarmUp(const std::vector<KeyAt>& keys, const WarmUpOptions& options);
  // If it throws, it has not touched `done`.
  void GetAsync(KeptKey&& key, Executor& executor, AnswerCallback&& done, const CacheGetOptions& options);
  // Runs a callback of GetAsync() on this thread.
  static void RunCallback(absl::FunctionRef<void()> callback) noexcept;
  // Has `executor` run `done` with the answer.
  static void Deliver(Executor& executor, AnswerCallback done, Answer answer) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void StartRefresh(const KeyAt& at, RefreshTrigger trigger, LoaderPtr loader) noexcept STOCKADE_EXCLUDES(kShardMutex);
  // Stores a copied value without options of its own, over a key or in a full cache, if nothing else is to be done and
  // nobody is to be waited for.
  bool TryPut(const KeyAt& at, const void* value) STOCKADE_EXCLUDES(kShardMutex);
  // `value` is a Value, or, if those are not copied, `box` has it.
  void Store(const KeyAt& at, const void* value, const Pinned& box, const EntryOptions& entry)
      STOCKADE_EXCLUDES(kShardMutex);
  void Invalidate(const KeyAt& at) noexcept STOCKADE_EXCLUDES(kShardMutex);
  // A Hash or Eq has thrown, so it is unknown which entries and loads are affected: all are invalidated. Called in a
  // catch clause.
  void InvalidateUnknown() noexcept STOCKADE_EXCLUDES(kShardMutex);
  absl::Status UpdateThrough(const KeyAt& at, absl::FunctionRef<absl::Status()> write, absl::Duration timeout)
      STOCKADE_EXCLUDES(kShardMutex);

  KeptKey Keep(const KeyAt& at) const { return {KeepKey(at.key), at.hash, at.shard}; }
  size_t ShardOfHash(uint64_t hash) const { return (hash >> 40) & shard_mask_; }
  // Lookups of hits read the index of a shard without its mutex.
  const EntryIndex& IndexOf(uint64_t hash) const { return indexes_[ShardOfHash(hash)]; }
  // Whether a hit may use what it has read in `slot`, whose `seq` and `plain_hit_until` were these.
  bool MayHit(const Slot& slot, uint32_t seq, Instant plain_hit_until) const;

  const LoadingCacheOptions options_;
  const std::string loader_label_;  // For errors about its exceptions.
  const std::shared_ptr<CallGate> gate_ = std::make_shared<CallGate>();
  Asked previous_asked_;

 private:
  struct Shard;
  class ShardLock;
  struct AfterUnlock;
  struct ReadHold;
  struct Runner;
  struct Loaded;
  class TierSide;
  class LinkedTierSide;
  struct Part;
  struct Claimed;
  struct Notices;
  class BatchNode;
  class Clearing;
  class UpdateMark;
  class QueuedLoad;
  class LockGuards;

  using FlightPtr = std::shared_ptr<Flight>;
  using AsyncPtr = std::shared_ptr<AsyncCall>;

  // The operations that depend on the types of the cache. They may throw, except for the loads.
  virtual std::unique_ptr<const KeyHolder> KeepKey(const void* key) const = 0;
  virtual std::string TextOf(const void* key) const = 0;
  virtual int64_t Weigh(const void* key, const void* value) const STOCKADE_EXCLUDES(kShardMutex) = 0;
  virtual void TellRemoval(const Removal& removal) const STOCKADE_EXCLUDES(kShardMutex) = 0;
  // The box of an entry with this key and this value, which may be null. Null if its slot needs none.
  // `renews`: the value may have been stored before.
  virtual Pinned BoxFor(const void* key, const Pinned& value, bool renews) const = 0;
  // A box for a value that is kept in slots.
  virtual Pinned Boxed(const void* value) const = 0;
  // For slots that are not free.
  virtual bool IsFor(const Slot& slot, const void* key) const STOCKADE_REQUIRES(kShardMutex) = 0;
  virtual Pinned ValueOf(const Slot& slot) const STOCKADE_REQUIRES(kShardMutex) = 0;
  virtual Removal RemovalOf(const Slot& slot, RemovalCause cause) const STOCKADE_REQUIRES(kShardMutex) = 0;
  // As SlotOf::Write(): `key` is null if the slot has it. If neither is given, there is no entry any more.
  virtual const Box* Write(Slot& slot, const void* key, NewEntry* entry) const STOCKADE_REQUIRES(kShardMutex) = 0;
  // Runs the loader, or the cache's own if it is null. Sets `threw` if it threw.
  virtual LoadResult Load(const LoadRequest& request, const LoaderPtr& loader, Instant deadline,
                          const std::stop_token& stop, bool& threw) STOCKADE_EXCLUDES(kShardMutex) = 0;
  // The codec of a cache with a tier; its id is nothing or empty if the codec is incomplete: see IdOf(). Functions of
  // the user, so they may throw.
  virtual std::optional<std::string_view> CodecId() const = 0;
  virtual absl::Status EncodeKey(const void* key, std::string* bytes) const = 0;
  virtual absl::Status EncodeValue(const Pinned& value, std::string* bytes) const = 0;
  virtual absl::StatusOr<Pinned> DecodeValue(const void* key, std::string_view bytes) const = 0;
  virtual absl::Status WithKey(std::string_view bytes, absl::FunctionRef<void(const KeyAt&)> function) const = 0;
  // Runs the batch loader. `results` gets the result of each request, or stays empty. Sets `threw` if it threw.
  virtual absl::Status LoadAll(std::span<const LoadRequest> requests, Instant deadline, const std::stop_token& stop,
                               std::vector<LoadResult>& results, bool& threw) STOCKADE_EXCLUDES(kShardMutex) = 0;

  // Parts of all others (cache_core.cc). `Named`: a message that begins with the cache's name.
  std::string Named(std::string_view rest) const;
  absl::Status StoppedError() const noexcept;
  absl::Status DeadlineError() const noexcept;
  absl::Status HardTimeoutError() const noexcept;
  static void LogThrownBy(std::string_view what) noexcept;
  void Observe(CacheMetric metric, absl::Duration span) { metrics_.Observe(metric, span); }
  void CountRemoval(RemovalCause cause) noexcept;
  void AddEntries(int64_t count, int64_t weight);
  Executor* RefreshExecutor();
  absl::Status StartRefreshThreads();
  void CheckNotInLoader() const;
  [[noreturn]] void DestroyedFromWithin(std::string_view callback) const;
  static absl::Status ScheduleReclaim(Executor::Task reclaim);

  static void GiveWay(const Shard& shard);
  Slot* FindEntry(const KeyAt& at) STOCKADE_REQUIRES(kShardMutex);
  // Returns false if Eq threw, so that it is unknown whether there is an entry.
  bool TryFindEntry(const KeyAt& at, Slot*& entry) noexcept STOCKADE_REQUIRES(kShardMutex);
  // The entry of the key if it has a value. Also null if Eq throws.
  Slot* FindValue(const KeyAt& at) noexcept STOCKADE_REQUIRES(kShardMutex);
  FlightPtr Current(const KeyAt& at) const STOCKADE_REQUIRES(kShardMutex);
  bool HasLoader() const { return has_.load || has_.load_all; }
  void CountRequest(const CacheCall& call);
  void Settle(AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  static void Wake(AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);

  // Lookups (lookup.cc).
  CacheCall NewCall(const CacheGetOptions& options) const;
  Answer Find(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader) noexcept STOCKADE_EXCLUDES(kShardMutex);
  Answer FindOrLoad(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader) STOCKADE_EXCLUDES(kShardMutex);
  // Takes a place among the waiters of the flight that a call has joined. Not OK: the call does not wait.
  using Enqueue = absl::FunctionRef<absl::Status(AfterUnlock&)>;
  std::optional<Answer> ServeOrJoin(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader, Enqueue enqueue)
      STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> Serve(const KeyAt& at, Instant now, bool stale_too, CacheMetric& result,
                              std::optional<RefreshTrigger>& due) STOCKADE_REQUIRES(kShardMutex);

  // Flights (lookup.cc, flights.cc).
  absl::Status Join(const KeyAt& at, CacheCall& call, Instant now) STOCKADE_REQUIRES(kShardMutex);
  FlightPtr StartFlight(const KeyAt& at, LoaderPtr loader, Instant now, bool in_background = false)
      STOCKADE_REQUIRES(kShardMutex);
  void Begin(Flight& flight, Instant now) STOCKADE_REQUIRES(kShardMutex);
  std::optional<Answer> Wait(CacheCall& call) STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> Expired(const CacheCall& call, Instant now) const;
  std::optional<Answer> GiveUp(CacheCall& call, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void DropIfUnwanted(Shard& shard, Flight& flight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void Drop(Shard& shard, Flight& flight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  Instant HardDeadline(const Flight& flight, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  bool IsHung(Flight& flight, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  void EnqueueWaiter(CacheCall& call) STOCKADE_REQUIRES(kShardMutex);
  static void ChooseRunner(Flight& flight, bool relay) STOCKADE_REQUIRES(kShardMutex);
  Executor* ExecutorOf(LoadQueue queue);
  LoadQueue PreferredQueue(const CacheCall& call);
  bool MustRunHere(const CacheCall& call);
  bool MayRunHere(const CacheCall& call) STOCKADE_REQUIRES(kShardMutex);
  LoadQueue QueueFor(const CacheCall& call);
  void Leave(Shard& shard, const CacheCall& call, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void Abandon(CacheCall& call) noexcept STOCKADE_EXCLUDES(kShardMutex);
  absl::Status CircleError(std::string_view circle) const;
  absl::Status CheckNotItsOwn(const void* key) const;
  void AnswerFlight(Flight& flight, Answer answer, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void RemoveCurrent(Shard& shard, Flight& flight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  bool TimeOutHung(const KeyAt& at, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void FailHung(const FlightPtr& flight, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void Fail(Flight& flight, Answer error, Instant now, AfterUnlock& after, const EntryOptions& entry = {}) noexcept
      STOCKADE_REQUIRES(kShardMutex);
  void ReplaceError(Flight& flight, Slot* old, Instant now, Answer& error, NewEntry* remembered,
                    AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);

  void Offer(LoadQueue queue, QueuedLoad load) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Dropped(LoadQueue queue, FlightPtr flight) noexcept;
  void Dropped(LoadQueue queue, std::vector<FlightPtr> batch) noexcept;
  void Refused(LoadQueue queue, std::span<const FlightPtr> flights) noexcept STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> Run(std::span<const FlightPtr> flights, bool as_batch, const Runner& runner) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> RunLoader(std::span<const FlightPtr> flights, bool as_batch, const Runner& runner,
                                  AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Resolve(Flight& flight, Loaded& loaded) const noexcept;
  std::optional<Answer> Publish(const FlightPtr& flight, Loaded loaded, const Runner& runner,
                                AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool Finish(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void EndLoad(const absl::Status& result, absl::Duration took, bool late, bool failed_refresh) noexcept;
  bool BeginQueued(Flight& flight, LoadQueue queue) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void HandOn(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void QueueUp(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void EnterQueue(Flight& flight, LoadQueue queue, Instant now) STOCKADE_REQUIRES(kShardMutex);

  // Batches (batch.cc).
  std::vector<Part> PartsOf(const std::vector<KeyAt>& keys, const CacheCall& call) const;
  void FindAll(std::span<Part> parts, const Runner& runner, bool warm_up) STOCKADE_EXCLUDES(kShardMutex);
  void LookUp(Part& part, bool warm_up, Claimed& claimed) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Claim(const CacheCall& call, Claimed& claimed, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void QueueBatch(LoadQueue queue, std::vector<FlightPtr> flights) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void BeginAll(std::vector<FlightPtr>& flights, LoadQueue queue) noexcept STOCKADE_EXCLUDES(kShardMutex);

  // Calls without a thread (async.cc).
  absl::Status StartAsyncThreads(const CacheCall& call);
  void StartAsync(const AsyncPtr& async) noexcept STOCKADE_EXCLUDES(kShardMutex);
  absl::Status EnqueueWaiter(const AsyncPtr& async, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void WatchAsync(const AsyncPtr& async) STOCKADE_REQUIRES(kShardMutex);
  void CheckAsync(const AsyncPtr& async) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void StopWatching(AsyncCall& async);
  void WaitIn(std::list<std::shared_ptr<Waiter>>& list, const AsyncPtr& async) STOCKADE_REQUIRES(kShardMutex);
  void StopWaiting(AsyncCall& async) STOCKADE_REQUIRES(kShardMutex);
  static void Deliver(std::shared_ptr<AsyncReply> reply, Answer answer) noexcept STOCKADE_EXCLUDES(kShardMutex);

  // Those of a strict cache.
  void StartStrictAsync(const AsyncPtr& async) noexcept STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> FindOrQueue(const AsyncPtr& async) STOCKADE_EXCLUDES(kShardMutex);
  void ScheduleRead(size_t shard) noexcept STOCKADE_EXCLUDES(kShardMutex);
  AsyncPtr TakeReady(size_t shard) STOCKADE_EXCLUDES(kShardMutex);
  void ReadNext(size_t shard) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool Park(const AsyncPtr& async) STOCKADE_EXCLUDES(kShardMutex);

  // Strict reads and updates (changes.cc).
  [[nodiscard]] bool TakeReadLock(uint64_t hash, Instant deadline, ReadHold& hold);
  void TakeReadLocks(std::span<Part> parts, Instant deadline, LockGuards& guards);
  void InvalidateWithin(const KeyAt& at, AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);

  // With a tier or without (cache_core.cc).
  bool MayServe(const Slot& entry, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  bool MayJoin(const Flight& flight, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  void GiveBackLease(const FlightPtr& flight, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);

  // The tier (tier.cc).
  std::vector<FlightPtr> AskTier(std::span<const FlightPtr> flights, bool as_batch, bool nested, const Runner& runner,
                                 AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  size_t AskPiece(std::span<const FlightPtr> flights, bool nested, std::vector<FlightPtr>& missing,
                  AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void HandOnAsked(const FlightPtr& flight, bool asked, AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool TryEncodeKey(Flight& flight) const;
  bool TakeAnswer(const FlightPtr& flight, TierAnswer answer, Instant sent, AfterUnlock& after) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  bool StoreCopy(const FlightPtr& flight, const TierRecord& record, Instant sent, bool answers, AfterUnlock& after)
      STOCKADE_EXCLUDES(kShardMutex);
  bool AnswerStale(const FlightPtr& flight, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  void Postpone(const FlightPtr& flight, absl::Duration delay, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  void AskAgainNow(const KeyAt& at) STOCKADE_EXCLUDES(kShardMutex);
  void EndBusy(Flight& flight) STOCKADE_REQUIRES(kShardMutex);
  void LookUpAgain(const FlightPtr& flight, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  bool HoldsLease(const Flight& flight) STOCKADE_EXCLUDES(kShardMutex);
  TierLease TakeLease(Flight& flight) STOCKADE_EXCLUDES(kShardMutex);
  size_t FillTier(std::span<const FlightPtr> flights, std::span<Loaded> loaded) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Release(const std::vector<std::pair<FlightPtr, TierLease>>& leases) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void PutInTier(const KeyAt& at, const Pinned& box, const EntryOptions& entry) STOCKADE_EXCLUDES(kShardMutex);
  TierInvalidated InvalidateInTier(const KeyAt& at, std::string& key, absl::FunctionRef<void()> locally,
                                   bool with_lease);
  TierInvalidated InvalidateInTier(const TierTarget& target, absl::FunctionRef<void()> locally, bool with_lease);

  static constexpr uint64_t kAnyPosition = UINT64_MAX;
  void ClearKey(const KeyAt& at, uint64_t before, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  void DropOldLease(const FlightPtr& flight, uint64_t before, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void ClearTag(std::string_view tag, uint64_t before) STOCKADE_EXCLUDES(kShardMutex);
  void ClearAll(uint64_t before) noexcept STOCKADE_EXCLUDES(kShardMutex);

  // Entries (entries.cc).
  EntryPtr MakeEntry(const KeyAt& at, const Loaded& loaded, Instant now) noexcept STOCKADE_EXCLUDES(kShardMutex);
  EntryPtr MakeAbsence(const KeyAt& at, const Loaded& loaded, Instant now) noexcept;
  std::optional<int64_t> WeightOf(const KeyAt& at, const void* value) const STOCKADE_EXCLUDES(kShardMutex);
  EntryTimes TimesOf(const Slot& slot) const STOCKADE_REQUIRES(kShardMutex);
  EntryTimes& KeptTimesOf(Slot& slot) STOCKADE_REQUIRES(kShardMutex);
  const Slot* Replace(const KeyAt& at, Slot* old, NewEntry* fresh, RemovalCause cause, bool renews, AfterUnlock& after,
                      Instant now) noexcept STOCKADE_REQUIRES(kShardMutex);
  const Slot* Insert(const KeyAt& at, NewEntry& fresh, AfterUnlock& after, Instant now) noexcept
      STOCKADE_REQUIRES(kShardMutex);
  bool EvictsItsOwn(const EntryTable& entries, int64_t weight) const STOCKADE_REQUIRES(kShardMutex);
  bool TryReplaceVictim(Shard& shard, const KeyAt& at, NewEntry& fresh, bool& crowd) STOCKADE_REQUIRES(kShardMutex);
  bool CountCrowd(Shard& shard) STOCKADE_REQUIRES(kShardMutex);
  void LogCrowd() const noexcept;
  void Remove(Shard& shard, Slot& slot, RemovalCause cause, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void Leave(Shard& shard, uint32_t id, RemovalCause cause, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void ReportLeaving(const Slot& slot, RemovalCause cause, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  RemovalCause VictimsCause(const Slot& victim, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  void Trim(const Slot* spared, AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool EvictOne(size_t shard, const Slot* spared, Instant now, AfterUnlock& after) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  void Notify(std::list<Removal> removed) noexcept STOCKADE_EXCLUDES(kShardMutex);
  std::list<Removal> RemovalsBy(absl::FunctionRef<void()> body) STOCKADE_EXCLUDES(kShardMutex);

  // Boxes that have left their slots (entries.cc).
  void Retire(Shard& shard, const Box* box, int64_t weight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void FreeBoxes(BoxList boxes) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Empty(Shard& shard) STOCKADE_EXCLUDES(kShardMutex);
  void FlushRetired() noexcept STOCKADE_EXCLUDES(kShardMutex);
  void PlanReclaim() noexcept STOCKADE_EXCLUDES(kShardMutex);

  Instant LeavesAt(const Slot& slot) const STOCKADE_REQUIRES(kShardMutex);
  void ExpectExpiry(Shard& shard, const Slot& stored, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void SweepSome(Shard& shard, uint32_t slots, Instant now, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void PlanSweep() noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Sweep() STOCKADE_EXCLUDES(kShardMutex);
  void CheckNotInListener() const;

  const Has has_;
  const bool puts_are_plain_;  // A Put without options neither runs user code nor expires.
  const std::string weigher_label_;
  const std::string listener_label_;
  const std::string write_label_;
  const std::string keys_label_;
  Freshness freshness_;
  // Fewer for a small bound, so that evicted entries are close to the least recently used ones. A power of two.
  const size_t shard_count_;
  const size_t shard_mask_;
  const int64_t full_shard_;                     // The weight from which on a shard is full.
  const std::unique_ptr<EntryIndex[]> indexes_;  // By shard.
  const std::unique_ptr<Shard[]> shards_;
  std::atomic<bool> reclaim_planned_{false};
  std::atomic<size_t> next_victim_{0};         // The shard that evicts next.
  const std::unique_ptr<KeyLocks> key_locks_;  // Held by updates and, if options_.strict, by reads.
  const absl::Duration sweep_interval_;
  std::atomic<bool> sweep_planned_{false};
  std::optional<TimerQueue> timers_;  // For calls without a thread, and sweeps. Empty: stopped.
  LazyThreadPool async_read_pool_;    // Strict reads without a thread wait here, never on a user's executor.
  LazyThreadPool refresh_pool_;
  std::unique_ptr<TierSide> tier_;  // Null: there is none.
  ForkGuard fork_guard_;
  std::atomic<int64_t> flights_{0};
  std::atomic<int64_t> waiters_{0};
  std::atomic<int64_t> entries_{0};
  std::atomic<int64_t> weight_{0};
  // Last: its gauges read the counts above.
  ComponentMetrics metrics_;
  StripedCells* const cells_ = metrics_.enabled() ? &metrics_.set()->cells() : nullptr;
  const size_t hit_cell_ = metrics_.enabled() ? metrics_.set()->cell_of(kRequestHit) : 0;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_
