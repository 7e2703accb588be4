#ifndef STOCKADE_CACHE_LOADING_CACHE_H_
#define STOCKADE_CACHE_LOADING_CACHE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/executor.h"
#include "stockade/base/log.h"
#include "stockade/cache/cache_callbacks.h"
#include "stockade/cache/cache_entry.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/cache_stats.h"
#include "stockade/cache/entry_options.h"
#include "stockade/cache/internal/typed_cache.h"
#include "stockade/cache/loading_cache_options.h"
#include "stockade/locks/lock_lease.h"

namespace stockade {

// Requirements on keys: std::hash<Key>, or a Hash as the third template parameter; and operator==, or an Eq as the
// fourth one. Equal keys have equal hashes, and a key has the same hash as long as the cache exists. Different keys
// have different hashes, with rare exceptions: an operation on one of n keys with the same hash compares up to n keys,
// under a mutex, so n loads take time O(n^2). All 64 bits count, but they need not be spread evenly: the cache mixes
// them, so that std::hash of integers is suitable.
//
// If others choose the keys, as the senders of requests do, they can choose keys that all have one std::hash, because
// that function is known. Use absl::Hash<Key> for such keys. Its seed is an address in the program, which differs from
// process to process if the program is position-independent, as compilers build it by default:
//
//   stockade::LoadingCache<std::string, Session, absl::Hash<std::string>> sessions(...);
//
// A shard that stores an entry while at least 64 others have its hash logs a warning, once, and each such entry counts
// in stockade_cache_hash_collisions_total.
template <typename Hash, typename Key>
concept HashOfKey = std::is_default_constructible_v<Hash> && std::is_invocable_r_v<size_t, Hash, const Key&>;
template <typename Eq, typename Key>
concept EqualityOfKey = std::is_default_constructible_v<Eq> && std::is_invocable_r_v<bool, Eq, const Key&, const Key&>;

// Get(), GetCopy(), GetEntry(), GetOrLoad(), GetIfPresent() and Peek() accept a view in place of a Key if Hash and Eq
// have the member type is_transparent: a type that both take, and of which a Key can be made. A hit by such a view
// copies no key; a call that leaves the hit path, and each GetEntry() and Peek(), makes the Key, once.
// Hash must give a view the hash of the key that it stands for. TransparentStringHash is one for strings.
template <typename K, typename Key, typename Hash, typename Eq>
concept CacheKeyView = !std::is_same_v<K, Key> &&
                       requires {
                         typename Hash::is_transparent;
                         typename Eq::is_transparent;
                       } && std::is_invocable_r_v<size_t, Hash, const K&> &&
                       std::is_invocable_r_v<bool, Eq, const Key&, const K&> && std::is_constructible_v<Key, const K&>;

// A cache that loads missing values itself, and runs one loader per key however many callers miss the key at the same
// time (single-flight).
//
//   stockade::LoadingCache<std::string, Product> products(
//       {.name = "products", .max_weight = 100'000, .ttl = absl::Minutes(5)},
//       [&](const std::string& id, stockade::LoadContext& load) -> absl::StatusOr<Product> {
//         return db.Fetch(id, load.deadline());
//       });
//   absl::StatusOr<stockade::CacheHandle<Product>> p = products.Get("air-force-one");
//
// A key has at most one current flight, which is one run of a loader. All calls that miss the key meanwhile join the
// flight and get its result: the value, the error, or kInternal if the loader threw. No lock of the cache is held while
// a loader runs.
//
// Invalidated values do not come back. If a key is invalidated during a flight, the flight continues for the callers
// that already wait, but its result is not stored and later calls do not see it. At most two loads of one key run at
// the same time, however often it is invalidated; further calls wait for the next load.
//
// A loader may call this cache and other caches. Loads that it needs run on its own thread. If a loader requests its
// own key, or a key whose load waits for it (A needs B while B needs A), the call is FailedPrecondition. The cache
// detects this for calls on the loader's thread, but not for calls on threads that the loader starts.
//
// Thread-safe. Get(), GetCopy(), GetEntry(), GetOrLoad(), GetAll() and WarmUp() block if they load or wait for a load.
// UpdateThrough() and the destructor block, and all calls block for short times on a mutex that guards 1/16 of the
// keys. Calls are expected O(1) per key unless stated otherwise. `Key` must be copyable and `Value` movable; a stored
// value is never changed. Destructors of keys and values run without a lock of the cache, as all callbacks do. Removed
// keys and values are destroyed in batches, at most 100 ms after their removal, on a thread that removes something or
// on a thread that all caches share. A batch has the entries that left within one tick of the coarse clock (1 to 10
// ms), and at most 64 entries or a hundredth of max_weight. With a clock other than the system clock there are no
// batches. Hash and Eq must not call the cache.
//
// No call throws. If a copy or move of a key or value, Hash, Eq, or an executor throws, the calls that needed it return
// kInternal. A value that was loaded and cannot be stored because of an exception is returned nevertheless, and the
// exception is logged. Calls without a status log the exception: Put() then invalidates the key, and an invalidation
// during which Hash or Eq throws removes all entries. Loads that an executor drops (it throws, or destroys the task
// without running it) fail with ResourceExhausted. Destructors must not throw. User code must not end its thread:
// pthread_exit() or pthread_cancel() within a loader or another callback aborts the process.
//
// The same holds without memory, for std::bad_alloc from operator new, but the status is ResourceExhausted, also for
// the calls that wait for a load whose thread has no memory. If there is no memory for the text of an error either, the
// error has none. Put() then invalidates the key, and an invalidation removes all entries, for which no memory is
// needed. With a tier, such an invalidation may not reach other processes, which is logged: they serve what they have
// until it expires. A std::bad_alloc that a loader throws is kInternal, as all that it throws. On the threads of the
// cache, a failed allocation may end the process. Hits of Get() need no memory after a thread's first one, unless the
// cache is strict.
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
  requires HashOfKey<Hash, Key> && EqualityOfKey<Eq, Key>
class LoadingCache {
  using Core = cache_internal::TypedCache<Key, Value, Hash, Eq>;

 public:
  // See CacheCallbacks and CacheHandle.
  using Callbacks = CacheCallbacks<Key, Value, Hash, Eq>;
  using Loader = typename Callbacks::Loader;
  using BatchLoader = typename Callbacks::BatchLoader;
  using Weigher = typename Callbacks::Weigher;
  using RemovalListener = typename Callbacks::RemovalListener;
  using Handle = CacheHandle<Value>;
  using AsyncCallback = absl::AnyInvocable<void(absl::StatusOr<Handle>)>;

  // Aborts with the message of Validate() if an option is invalid, or if the loader is empty. Aborts without memory.
  LoadingCache(LoadingCacheOptions options, Loader loader, Weigher weigher = {})
      : core_(CoreOrFatal(MakeCore(std::move(options), Both(std::move(loader), std::move(weigher)), true))) {}
  LoadingCache(LoadingCacheOptions options, Callbacks callbacks)
      : core_(CoreOrFatal(MakeCore(std::move(options), std::move(callbacks), false))) {}
  // A cache that is filled by GetOrLoad() and Put().
  explicit LoadingCache(LoadingCacheOptions options) : LoadingCache(std::move(options), Callbacks{}) {}

  // Like the constructors, but returns InvalidArgument instead of aborting. With a tier also FailedPrecondition: it has
  // an open cache of this name. ResourceExhausted: there is no memory.
  static absl::StatusOr<std::unique_ptr<LoadingCache>> Create(LoadingCacheOptions options, Loader loader,
                                                              Weigher weigher = {}) {
    return Open(MakeCore(std::move(options), Both(std::move(loader), std::move(weigher)), true));
  }
  static absl::StatusOr<std::unique_ptr<LoadingCache>> Create(LoadingCacheOptions options, Callbacks callbacks) {
    return Open(MakeCore(std::move(options), std::move(callbacks), false));
  }

  // Completes calls that wait for a load with Cancelled at once. Then waits for all calls, loaders and refreshes in
  // progress; loads that have not started never do. Must not run within a callback of this cache; if the callback is a
  // loader or the listener, it aborts. Does nothing in a forked child.
  ~LoadingCache() {
    if (core_->InForkedChild()) {
      (void)core_.release();
      return;
    }
    core_->Shutdown();
  }

  LoadingCache(const LoadingCache&) = delete;
  LoadingCache& operator=(const LoadingCache&) = delete;

  // Returns the fresh value of `key`, and loads it if it is missing. Returns an expired value if the options allow
  // that. Errors:
  //   NotFound: the loader returned it now or earlier (negative_ttl).
  //   DeadlineExceeded: the time-out passed while waiting (the load continues and its result is stored), or the load's
  //     hard time-out passed.
  //   FailedPrecondition: a loader requested a key whose load waits for the loader's own.
  //   Cancelled: options.stop was requested, or the cache is being destroyed.
  //   ResourceExhausted: there is no memory, or an executor dropped the load.
  //   Internal: user code threw.
  //   Any other error is the loader's.
  //
  // If the call runs the loader itself, the loader gets the call's deadline, and nothing else ends it early. An error
  // that is caused by this call's own deadline or cancellation is returned only to this call; if other calls wait, one
  // of them loads again.
  [[gnu::always_inline]] absl::StatusOr<Handle> Get(const Key& key) { return core_->Get(key); }
  absl::StatusOr<Handle> Get(const Key& key, const CacheGetOptions& options) {
    return core_->Get(key, options, nullptr);
  }
  template <CacheKeyView<Key, Hash, Eq> K>
  [[gnu::always_inline]] absl::StatusOr<Handle> Get(const K& key) {
    return core_->Get(key);
  }
  template <CacheKeyView<Key, Hash, Eq> K>
  absl::StatusOr<Handle> Get(const K& key, const CacheGetOptions& options) {
    return core_->Get(key, options, nullptr);
  }

  // Like Get(), and copies the value. Internal also if its copy constructor throws.
  absl::StatusOr<Value> GetCopy(const Key& key, const CacheGetOptions& options = {})
    requires std::copy_constructible<Value>
  {
    return core_->GetCopy(key, options);
  }
  template <CacheKeyView<Key, Hash, Eq> K>
    requires std::copy_constructible<Value>
  absl::StatusOr<Value> GetCopy(const K& key, const CacheGetOptions& options = {}) {
    return core_->GetCopy(key, options);
  }

  // Like Get(), and says where the value came from and when it expires. Takes a mutex also for a hit.
  absl::StatusOr<CacheEntry<Value>> GetEntry(const Key& key, const CacheGetOptions& options = {}) {
    return core_->GetEntry(key, options);
  }
  template <CacheKeyView<Key, Hash, Eq> K>
  absl::StatusOr<CacheEntry<Value>> GetEntry(const K& key, const CacheGetOptions& options = {}) {
    return core_->GetEntry(key, options);
  }

  // The entry as it is, without any effect: it loads nothing, starts no refresh, and is neither a use of the entry nor
  // a request in the metrics. Also a value that has expired and was not removed yet; it has kStale, as has one for
  // which a tier does not vouch at the moment. An absence or a remembered error has an empty handle. Nothing if there
  // is no entry, and without memory. With options.strict it does not wait for an update.
  std::optional<CacheEntry<Value>> Peek(const Key& key) const { return core_->Peek(key); }
  template <CacheKeyView<Key, Hash, Eq> K>
  std::optional<CacheEntry<Value>> Peek(const K& key) const {
    return core_->Peek(key);
  }

  // Calls `visitor(const Key&, const CacheEntry<Value>&)` for the values in memory, until it returns false. As Peek(),
  // without effect. Values that are in the cache during the whole call are visited once each; those that come or go
  // meanwhile, perhaps. No lock is held while `visitor` runs, which may call the cache. O(entries), and a share of each
  // of 16 values at a time.
  //   Internal: `visitor` threw, which ends the call. Cancelled: the cache is being destroyed. ResourceExhausted: there
  //   is no memory.
  absl::Status ForEach(absl::FunctionRef<bool(const Key&, const CacheEntry<Value>&)> visitor) const {
    return core_->ForEach(visitor);
  }

  // Like Get(), with a loader for this call. Calls for the same key share a flight even if their loaders differ; the
  // loader of the first call runs. A refresh that the call starts uses this loader, too. The loader is copied and may
  // run after the call has returned (on an executor, in the background, for other calls), so it must capture by value
  // or refer to objects that outlive the cache. InvalidArgument: the call has to load, and `loader` is empty.
  template <typename CallLoader>
  absl::StatusOr<Handle> GetOrLoad(const Key& key, const CallLoader& loader, const CacheGetOptions& options = {}) {
    const auto copy = [&] { return core_->CopyLoader(loader); };
    const typename Core::MakeLoader make_loader = copy;
    return core_->Get(key, options, &make_loader);
  }
  template <CacheKeyView<Key, Hash, Eq> K, typename CallLoader>
  absl::StatusOr<Handle> GetOrLoad(const K& key, const CallLoader& loader, const CacheGetOptions& options = {}) {
    const auto copy = [&] { return core_->CopyLoader(loader); };
    const typename Core::MakeLoader make_loader = copy;
    return core_->Get(key, options, &make_loader);
  }

  // Like Get() for each of `keys`. The results are in the order of the keys, and an error of one key does not affect
  // the others. One call of the batch loader, or more with max_batch, loads all missing keys that are not being loaded
  // already. Without a batch loader each key is loaded separately: one after another on this thread, or at the same
  // time on a load_executor. Repeated keys are looked up once. options.timeout applies to the whole call. Without
  // memory for the results, the vector is empty.
  template <typename Keys>
    requires std::convertible_to<const Keys&, std::span<const Key>>
  std::vector<absl::StatusOr<Handle>> GetAll(const Keys& keys, const CacheGetOptions& options = {}) {
    return core_->GetAll(keys, options);
  }
  // Also for a list: GetAll({"a", "b"}).
  std::vector<absl::StatusOr<Handle>> GetAll(const std::vector<Key>& keys, const CacheGetOptions& options = {}) {
    return core_->GetAll(keys, options);
  }

  // Like Get(), without blocking; for co_await see GetAwait() (stockade/cache/coroutine.h). `done`, which must not be
  // empty, is run once on `executor`, which must exist until then. Any thread of the cache may call
  // executor.Schedule(); `done` must not destroy the cache within that call. If `executor` throws, or if there is no
  // memory for its task, `done` runs on the current thread; if it drops the task, `done` is destroyed without running.
  // The load runs on load_executor, or on refresh_executor if that is not set. With options.strict, a load runs, or is
  // waited for, on one of two threads of the cache. A call that waits for such a thread, or for an update of its key,
  // ends with its time-out (on the cache's clock) or its stop token. ResourceExhausted: there is no memory, or
  // a thread of the cache that the call needs could not be started.
  void GetAsync(const Key& key, Executor& executor, AsyncCallback done, const CacheGetOptions& options = {}) {
    core_->GetAsync(key, executor, std::move(done), options);
  }

  // The answer at once if Get() need not wait for it: a hit, a stale value, an absence, a remembered error, Cancelled,
  // DeadlineExceeded with a time-out of 0, or Internal or ResourceExhausted if a copy of the key or of `done` throws.
  // Then `done` does not run. Otherwise nothing, and `done` runs later, as for GetAsync(). `done` becomes an
  // AsyncCallback only if the call has to wait, so a hit does not copy it.
  template <typename Callback>
  std::optional<absl::StatusOr<Handle>> GetOrAsync(const Key& key, Executor& executor, Callback&& done,
                                                   const CacheGetOptions& options = {}) {
    return core_->GetOrAsync(key, executor, std::forward<Callback>(done), options);
  }

  // Returns the value if it is present and fresh. Never loads and never waits for a load; may start a refresh. Nothing
  // without memory.
  std::optional<Handle> GetIfPresent(const Key& key) { return core_->GetIfPresent(key); }
  template <CacheKeyView<Key, Hash, Eq> K>
  std::optional<Handle> GetIfPresent(const K& key) {
    return core_->GetIfPresent(key);
  }

  // Loads `key` in the background unless it is being loaded, whatever the cache contains. The current value is served
  // until the load has ended, and afterwards if it failed; use Invalidate() if the value must not be served any more.
  // If there is no memory, or the cache's own threads cannot be started, this is logged and nothing is loaded.
  void Refresh(const Key& key) { core_->Refresh(key); }

  // Loads the missing ones of `keys` with `parallelism` loads at a time, on threads of its own, and returns when all
  // are done. Its lookups do not count as requests.
  //   InvalidArgument: an option is invalid.
  //   FailedPrecondition: called in a loader, an update or a strict read.
  //   ResourceExhausted: the threads could not be started, and nothing was loaded; or there is no memory.
  absl::StatusOr<WarmUpReport> WarmUp(const std::vector<Key>& keys, const WarmUpOptions& options = {}) {
    return core_->WarmUp(keys, options);
  }

  // Stores `value`. Takes precedence over a load in progress: callers that wait for the load get `value` at once, and
  // the result of the load is dropped. With a TTL of zero or less the key is only invalidated.
  void Put(const Key& key, Value value, EntryOptions entry = {}) { core_->Put(key, std::move(value), entry); }
  void Put(const Key& key, Value value, Duration ttl) { core_->Put(key, std::move(value), {.ttl = ttl}); }

  // Put() of each, one after another; of a key that is there twice, the last one counts. With a tier in pieces, at the
  // pace of InvalidateKeys(), for which it waits as long as the tier's heartbeats succeed: with RedisCacheTier and its
  // defaults 2,500 entries in a quarter of a second. If the tier is away, or does not accept a piece within its
  // time-out, the rest is invalidated together and not stored. If Hash or Eq throws, an invalidation removes all
  // entries.
  void PutAll(std::vector<std::pair<Key, Value>> entries, const EntryOptions& entry = {}) {
    core_->PutAll(std::move(entries), entry);
  }

  // A call that begins after this returns sees no value that was stored before, and no value whose load began before.
  // Cached absences are removed, too.
  void Invalidate(const Key& key) { core_->Invalidate(key); }
  // The same for each of `keys`, one after another. With a tier it waits for all of them at once, and the tier sends
  // them at a pace that the other processes can follow: RedisCacheTier a quarter of its journal_length in the time of a
  // heartbeat. More different keys than half of its journal_length, or than 65,536, become one invalidation of all.
  // O(keys).
  template <typename Keys>
    requires std::convertible_to<const Keys&, std::span<const Key>>
  void InvalidateKeys(const Keys& keys) {
    core_->InvalidateKeys(keys);
  }
  // Also for a list: InvalidateKeys({"a", "b"}).
  void InvalidateKeys(const std::vector<Key>& keys) { core_->InvalidateKeys(keys); }
  // The same for all entries with the tag, and for loads in progress whose results have it. Proceeds shard by shard,
  // not atomically. O(entries with the tag + loads in progress).
  void InvalidateTag(std::string_view tag) { core_->InvalidateTag(tag); }
  // The same for all keys, shard by shard. O(entries).
  void InvalidateAll() { core_->InvalidateAll(); }

  // Waits until the tier has accepted all that this cache has invalidated or put before. DeadlineExceeded: it has not
  // within `timeout`; the tier goes on trying. Cancelled: the cache is being destroyed. ResourceExhausted: there is no
  // memory. OK at once without a tier.
  absl::Status AwaitInvalidations(Duration timeout) { return core_->AwaitInvalidations(timeout); }

  // Runs `write`, which writes the key's new value to the source that the loader reads. Invalidates the key before and
  // after, whatever `write` returned, because a failed write may have taken effect. A call that begins after this
  // returns does not see the old value. Holds the key's write lock: there is one update of a key at a time, and with
  // options.strict reads of the key wait, except those by loaders and by `write` itself, which acquire no lock.
  // `timeout` limits the wait for the lock, on the steady clock. With a tier, the invalidations may still be queued
  // when this returns: see AwaitInvalidations().
  //
  // Returns the result of `write`, or kInternal if it threw. On these errors `write` did not run, unless it returned
  // them itself: DeadlineExceeded; FailedPrecondition (called in a loader, in a listener that a strict read runs, or
  // within another update of any cache); Cancelled (the cache is being destroyed); ResourceExhausted (there is no
  // memory). `write` must not wait for other threads that read the key.
  absl::Status UpdateThrough(const Key& key, absl::FunctionRef<absl::Status()> write,
                             Duration timeout = absl::InfiniteDuration()) {
    return core_->template UpdateThrough<absl::Status>(key, write, timeout);
  }

  // The same for a cache with options.strict and a tier: the cache equals its database, in all processes. Takes about
  // max_staleness of the tier longer than `write`, and updates of one key come one after another: use a tier of its own
  // with a short one, such as 500 ms.
  //
  //   prices.UpdateThrough("air-force-one", [&](const stockade::LockLease& lock) {
  //     return db.SetPrice("air-force-one", cents, *lock.fencing_token());  // Refuses tokens below the last one.
  //   });
  //
  // Holds the key's lock in all processes (RedisCacheTierOptions::locks), waits until no process has an older value in
  // its memory, runs `write`, and makes sure that none has got one meanwhile. Until it returns, calls for the key wait,
  // in all processes, except those by `write` itself, which load. Calls of this process that wait get such a value,
  // too, so `write` must not read through the cache what it may roll back; nor a key whose own update reads this one,
  // because both then wait for the longest time of a load. A call that begins after this has returned a settled report
  // sees no value older than that of `write`, in any process, provided that the database refuses the write of a lock
  // with a smaller fencing token than the last one that it has taken, and that all processes have the same
  // max_staleness. If this process dies before the end, nothing is promised about this write.
  //
  // Returns a report if `write` returned OK; the update may not be settled. Otherwise returns the error of `write`, or
  // kInternal if it threw. On these errors `write` did not run, unless it returned them itself: Unavailable (the tier
  // cannot be reached); Internal (the codec, Hash or Eq threw); Aborted (the lock was lost); InvalidArgument (the key
  // has more than 1,024 bytes, or the codec refuses it); FailedPrecondition (also: the cache is not strict, has no
  // tier, or the lock has no fencing token); those of LockService::Acquire(); and those above. `timeout` limits the
  // wait for other updates.
  absl::StatusOr<UpdateReport> UpdateThrough(const Key& key, absl::FunctionRef<absl::Status(const LockLease&)> write,
                                             Duration timeout = absl::InfiniteDuration()) {
    return core_->template UpdateThrough<absl::StatusOr<UpdateReport>>(key, write, timeout);
  }

  // The number and the weight of all entries, including absences and expired entries that were not requested since.
  // weight() exceeds max_weight by at most one entry per thread that is currently storing one, and during
  // SetMaxWeight().
  int64_t size() const { return core_->size(); }
  int64_t weight() const { return core_->weight(); }
  // The counts of the metrics, and the state, for a program that shows or compares them itself. They are read one after
  // another, so calls that run meanwhile may be in some of them. O(threads).
  CacheStats Stats() const { return core_->Stats(); }

  // Changes options.max_weight. With a smaller one, evicts until the weight is within it before it returns, some
  // entries at a time, while other calls go on. Caches are divided into as many parts as the first bound is worth, so
  // begin with the usual one. InvalidArgument: it is not from 1 to 2^56. Cancelled: the cache is being destroyed.
  absl::Status SetMaxWeight(int64_t max_weight) { return core_->SetMaxWeight(max_weight); }

 private:
  struct Made {};  // Makes the constructor's call unambiguous.
  LoadingCache(std::unique_ptr<Core> core, Made) : core_(std::move(core)) {}

  // `needs_loader`: an empty loader is an error.
  static absl::StatusOr<std::unique_ptr<Core>> MakeCore(LoadingCacheOptions&& options, Callbacks&& callbacks,
                                                        bool needs_loader) try {
    if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
    if (needs_loader && !callbacks.load) return cache_internal::EmptyLoaderError(options.name);
    return std::make_unique<Core>(std::move(options), std::move(callbacks));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError({});
  }
  static Callbacks Both(Loader&& loader, Weigher&& weigher) {
    return {.load = std::move(loader), .weigh = std::move(weigher)};
  }
  static std::unique_ptr<Core> CoreOrFatal(absl::StatusOr<std::unique_ptr<Core>> made) {
    if (!made.ok()) cache_internal::FatalStatus(made.status());
    if (absl::Status opened = (*made)->OpenTier(); !opened.ok()) cache_internal::FatalStatus(opened);
    return *std::move(made);
  }
  static absl::StatusOr<std::unique_ptr<LoadingCache>> Open(absl::StatusOr<std::unique_ptr<Core>> made) try {
    if (!made.ok()) return made.status();
    std::unique_ptr<LoadingCache> cache(new LoadingCache(*std::move(made), Made{}));
    if (absl::Status opened = cache->core_->OpenTier(); !opened.ok()) return opened;
    return cache;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError({});
  }

  std::unique_ptr<Core> core_;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOADING_CACHE_H_
