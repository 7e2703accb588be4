#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/cache/cache_entry.h"
#include "stockade/cache/cache_stats.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/internal/erased.h"
#include "stockade/cache/internal/single_flight.h"

namespace stockade::cache_internal {

struct AsyncReply;
class KeyLocks;

// The calls of a LoadingCache, without its types and without the checks of its options. The public class documents
// them; TypedCache answers hits and runs the user's functions.
//
// The way of a hit is in typed_cache.h and slots.h: it reads the index and the slot without a lock.
//
// The way of a miss. A key belongs to one shard, whose mutex guards the key's entry and flights. ServeOrJoin() looks
// the key up and, if there is nothing fresh, joins a flight and takes a place among its waiters; all this is one step
// under the mutex, so no call misses a result. Then Wait() takes the mutex for each of its steps: it runs the flight,
// hands it to an executor, or sleeps. The thread that runs a flight holds no mutex. It calls the loader, and then
// Publish() stores the result and answers the flight in one step.
//
// No callback, executor or destructor of a value runs under the mutex: such work is put into an AfterUnlock, whose
// Run() is called when the mutex is released. Copies of keys, Hash and Eq do run under it. A thread never holds the
// mutexes of two shards.
//
// Functions that are not noexcept pass on the exceptions of keys, Hash and Eq, and std::bad_alloc, and the calls of the
// public class turn them into a status or log them: ThrownError() and LogThrown() say what of. Functions that must
// answer a caller are noexcept: those that run or end a flight, and those that give up a waiter's place. They need no
// memory for that: what an entry, a box or a flight needs in order to leave is a part of it since it was made, and an
// error for whose text there is no memory has no text.
//
// Not here: which entry is evicted (eviction.h), when a value is fresh (freshness.h), who waits for whom
// (load_graph.h), and the second level (tier_side.h).
class STOCKADE_EXPORT CacheCore : public SingleFlight {
 public:
  // Copies the loader of a call; an exception becomes the status.
  using MakeLoader = absl::FunctionRef<absl::StatusOr<LoaderPtr>()>;

  CacheCore(LoadingCacheOptions&& options, Has has, Slab::Type slots);
  ~CacheCore() override;

  void InvalidateTag(std::string_view tag) STOCKADE_EXCLUDES(kShardMutex);
  void InvalidateAll() STOCKADE_EXCLUDES(kShardMutex);
  absl::Status AwaitInvalidations(absl::Duration timeout);
  absl::Status SetMaxWeight(int64_t max_weight) STOCKADE_EXCLUDES(kShardMutex);
  CacheStats Stats() const;
  // Called once, before the destructor.
  void Shutdown() STOCKADE_EXCLUDES(kShardMutex);
  // Called once, before all calls: joins the tier of the options, if there is one.
  absl::Status OpenTier();
  // The same for a cache with a tier.
  static absl::Status JoinTier(CacheCore& core);

 protected:
  // The calls; the caller is inside the gate, except for GetAsync().
  Answer Find(const KeyAt& at, const CacheGetOptions& options, const MakeLoader* make_loader) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  // A CacheEntry without its type.
  struct Found {
    Answer answer;  // An error for an absence.
    CacheSource source;
    absl::Duration expires_in;
  };
  Found FindEntryOf(const KeyAt& at, const CacheGetOptions& options) noexcept STOCKADE_EXCLUDES(kShardMutex);
  // The answer of a call that need not wait. Nothing: it must, and has counted as nothing.
  std::optional<Answer> FindAtOnce(const KeyAt& at, const CacheGetOptions& options) STOCKADE_EXCLUDES(kShardMutex);
  // Nothing: there is no entry.
  std::optional<Found> Peek(const KeyAt& at) STOCKADE_EXCLUDES(kShardMutex);
  // Calls `visit` for each value, with the box of its key, until it returns false.
  absl::Status ForEach(absl::FunctionRef<bool(const Box& key, Found found)> visit) STOCKADE_EXCLUDES(kShardMutex);
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
  // Stores a copied value without options of its own, over a key or in a full cache, if that needs no other work
  // and no wait.
  bool TryPut(const KeyAt& at, const void* value) STOCKADE_EXCLUDES(kShardMutex);
  // `value` is a Value, or, if those are not copied, `box` has it.
  void Store(const KeyAt& at, const void* value, const Pinned& box, const EntryOptions& entry)
      STOCKADE_EXCLUDES(kShardMutex);
  void Invalidate(const KeyAt& at) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void InvalidateKeys(std::span<const KeyAt> keys) STOCKADE_EXCLUDES(kShardMutex);
  // With a tier. Distinct keys.
  void PutAll(std::span<const KeyAt> keys, std::span<const Pinned> boxes, const EntryOptions& entry)
      STOCKADE_EXCLUDES(kShardMutex);
  // A Hash or Eq has thrown, so it is unknown which entries and loads are affected: all are invalidated. Called in a
  // catch clause.
  void InvalidateUnknown() noexcept STOCKADE_EXCLUDES(kShardMutex);
  absl::Status UpdateThrough(const KeyAt& at, absl::FunctionRef<absl::Status()> write, absl::Duration timeout)
      STOCKADE_EXCLUDES(kShardMutex);
  absl::StatusOr<UpdateReport> UpdateThrough(const KeyAt& at, LockedWrite write, absl::Duration timeout)
      STOCKADE_EXCLUDES(kShardMutex);

  // Whether a hit may use what it has read in `slot`, whose `seq` and `plain_hit_until` were these.
  bool MayHit(const Slot& slot, uint32_t seq, Instant plain_hit_until) const {
    if (hits_are_checked_) {
      return tier_ != nullptr ? MayHitInTier(slot, seq, plain_hit_until) : MayHitInUse(slot, seq, plain_hit_until);
    }
    return plain_hit_until == Instant::InfiniteFuture() || MayHitInTime(plain_hit_until);
  }

 private:
  bool MayHitInTier(const Slot& slot, uint32_t seq, Instant plain_hit_until) const;
  bool MayHitInUse(const Slot& slot, uint32_t seq, Instant plain_hit_until) const;
  bool MayHitInTime(Instant plain_hit_until) const;
  bool IsBefore(Instant plain_hit_until, Instant coarse) const;

  friend class TierSide;

  struct ReadHold;
  struct Served;
  struct Part;
  struct Claimed;
  class Clearing;
  class UpdateMark;
  class LockGuards;

  // Lookups (lookup.cc).
  CacheCall NewCall(const CacheGetOptions& options) const;
  void CountRequest(const CacheCall& call);
  Answer FindOrLoad(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  // Takes a place among the waiters of the flight that a call has joined. Not OK: the call does not wait.
  using Enqueue = absl::FunctionRef<absl::Status(Instant now, AfterUnlock&)>;
  std::optional<Answer> ServeOrJoin(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader, Enqueue enqueue)
      STOCKADE_EXCLUDES(kShardMutex);
  void EnqueueWaiter(CacheCall& call) STOCKADE_REQUIRES(kShardMutex);
  Served Serve(const KeyAt& at, Instant now, bool stale_too) STOCKADE_REQUIRES(kShardMutex);
  std::optional<Answer> TryAnswer(const KeyAt& at, CacheCall& call) STOCKADE_EXCLUDES(kShardMutex);
  Found FoundIn(const Slot& slot, Answer answer, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  void QueueUpRefresh(const KeyAt& at, RefreshTrigger trigger, LoaderPtr& loader, AfterUnlock& after)
      STOCKADE_REQUIRES(kShardMutex);

  // Batches (batch.cc).
  std::vector<Part> PartsOf(const std::vector<KeyAt>& keys, const CacheCall& call) const;
  void FindAll(std::span<Part> parts, const Runner& runner, bool warm_up) STOCKADE_EXCLUDES(kShardMutex);
  bool CanLoadNow(const Part& part) const STOCKADE_EXCLUDES(kShardMutex);
  void LookUp(Part& part, bool warm_up, Claimed& claimed) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Claim(const CacheCall& call, Claimed& claimed, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void QueueBatch(LoadQueue queue, Flights flights) noexcept STOCKADE_EXCLUDES(kShardMutex);

  // Calls without a thread (async.cc).
  absl::Status StartAsyncThreads(const CacheCall& call);
  void StartAsync(const AsyncPtr& async) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void AnswerAsync(const AsyncPtr& async) noexcept override STOCKADE_EXCLUDES(kShardMutex);
  absl::Status EnqueueAsync(const AsyncPtr& async, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void WatchAsync(const AsyncPtr& async) STOCKADE_REQUIRES(kShardMutex);
  void CheckAsync(const AsyncPtr& async) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void StopWatching(AsyncCall& async);
  void WaitIn(std::list<std::shared_ptr<Waiter>>& list, const AsyncPtr& async) STOCKADE_REQUIRES(kShardMutex);
  void StopWaiting(AsyncCall& async) STOCKADE_REQUIRES(kShardMutex);
  void Reply(const AsyncPtr& async, Answer answer) noexcept STOCKADE_EXCLUDES(kShardMutex);
  static void Deliver(std::shared_ptr<AsyncReply> reply, Answer answer) noexcept STOCKADE_EXCLUDES(kShardMutex);

  // Those of a strict cache.
  void StartStrictAsync(const AsyncPtr& async) noexcept STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> FindOrQueue(const AsyncPtr& async) STOCKADE_EXCLUDES(kShardMutex);
  void ScheduleRead(size_t shard) noexcept STOCKADE_EXCLUDES(kShardMutex);
  AsyncPtr TakeReady(size_t shard) STOCKADE_EXCLUDES(kShardMutex);
  void ReadNext(size_t shard) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool Park(const AsyncPtr& async) STOCKADE_EXCLUDES(kShardMutex);

  // Strict reads and updates (changes.cc).
  absl::Status CheckMayUpdate() const;
  [[nodiscard]] bool TakeReadLock(uint64_t hash, Instant deadline, ReadHold& hold);
  void TakeReadLocks(std::span<Part> parts, Instant deadline, LockGuards& guards);
  absl::Status Update(const KeyAt& at, absl::FunctionRef<absl::Status()> write, absl::Duration timeout,
                      AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  void InvalidateWithin(const KeyAt& at, AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void InSteps(size_t count, absl::FunctionRef<void(size_t index, AfterUnlock& after)> step)
      STOCKADE_EXCLUDES(kShardMutex);

  static constexpr uint64_t kAnyPosition = UINT64_MAX;
  void ClearKey(const KeyAt& at, uint64_t before, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  void DropOldLease(const FlightPtr& flight, uint64_t before, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void ClearTag(std::string_view tag, uint64_t before) STOCKADE_EXCLUDES(kShardMutex);
  void ClearAll(uint64_t before) noexcept STOCKADE_EXCLUDES(kShardMutex);

  const bool puts_are_plain_;    // A Put without options neither runs user code nor expires.
  const bool hits_are_checked_;  // By MayHit(): they depend on a tier or on idle_ttl.
  const std::string write_label_;
  const std::unique_ptr<KeyLocks> key_locks_;  // Held by updates and, if locks_reads(), by reads.
  LazyThreadPool async_read_pool_;             // Strict reads without a thread wait here, never on a user's executor.
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_H_
