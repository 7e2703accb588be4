#ifndef STOCKADE_CACHE_LOADING_CACHE_H_
#define STOCKADE_CACHE_LOADING_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/cache_callbacks.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/entry_options.h"
#include "stockade/cache/internal/cache_core.h"
#include "stockade/cache/loading_cache_options.h"

namespace stockade {

// What a cache asks of its keys: a std::hash<Key>, or a Hash of one's own as the third parameter; and an operator==, or
// an Eq as the fourth.
template <typename Hash, typename Key>
concept HashOfKey = std::is_default_constructible_v<Hash> && std::is_invocable_r_v<size_t, Hash, const Key&>;
template <typename Eq, typename Key>
concept EqualityOfKey = std::is_default_constructible_v<Eq> && std::is_invocable_r_v<bool, Eq, const Key&, const Key&>;

// A cache that fills itself, and runs its loader once for a key however many callers miss it at the same moment.
//
//   stockade::LoadingCache<std::string, Product> products(
//       {.name = "products", .max_weight = 100'000, .ttl = absl::Minutes(5)},
//       [&](const std::string& id, stockade::LoadContext& load) -> absl::StatusOr<Product> {
//         return db.Fetch(id, load.deadline());
//       });
//   absl::StatusOr<stockade::CacheHandle<Product>> p = products.Get("air-force-one");
//
// A key has at most one current flight, which is one run of a loader; whoever misses the key meanwhile, by whatever
// call, waits for it and gets its result: the value, the error, or what the loader threw (kInternal). No lock of the
// cache is held while a loader runs.
//
// What is invalidated stays invalid: a flight that was under way when its key was invalidated goes on for those who
// already waited, but its result is not stored and no later call sees it. At most two loads of one key run at once,
// however often it is invalidated; calls beyond that wait for the next.
//
// A loader may call the cache, and other caches. Its loads run on its own thread. One that asks for its own key, or
// would close a circle with the loaders that other threads run (A needs B while B needs A), gets FailedPrecondition.
// This sees calls made on the loader's thread; of threads that a loader starts it knows nothing.
//
// Thread-safe. Blocks: Get(), GetOrLoad(), GetAll() and WarmUp() where they load or wait for a load, UpdateThrough(),
// the destructor, and all calls for moments on a mutex of 1/16 of the keys. Calls are O(1) expected in each key, but
// where they say otherwise. `Key` is copyable; `Value` is movable and is never changed once stored. Destructors of keys
// and values run without a lock of the cache, as all callbacks do; those of what has left in batches, at most 100 ms
// after it has left: on a thread that removes something, or on one that all caches share. A batch is what leaves within
// a tick of the coarse clock (1 to 10 ms), and at most 64 entries or a hundredth of max_weight. With another clock than
// the system's there are no batches. Hash and Eq must not call the cache.
//
// No call throws what user code throws. What a copy or move of a key or value, Hash, Eq, or an executor throws is the
// status (kInternal) of the calls that needed it. A value that was loaded and cannot be stored because of it is
// returned all the same, which is logged. Calls without a status log it: Put() then invalidates the key, and an
// invalidation for which Hash or Eq throws takes all entries. Loads that an executor drops (it throws, or destroys the
// task without running it) fail with ResourceExhausted. Destructors must not throw.
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
  requires HashOfKey<Hash, Key> && EqualityOfKey<Eq, Key>
class LoadingCache {
  using Core = internal::CacheCore<Key, Value, Hash, Eq>;

 public:
  // See CacheCallbacks, CacheHandle.
  using Callbacks = CacheCallbacks<Key, Value, Hash, Eq>;
  using Loader = typename Callbacks::Loader;
  using BatchLoader = typename Callbacks::BatchLoader;
  using Weigher = typename Callbacks::Weigher;
  using RemovalListener = typename Callbacks::RemovalListener;
  using Handle = CacheHandle<Value>;
  using AsyncCallback = absl::AnyInvocable<void(absl::StatusOr<Handle>)>;

  // Aborts with Validate()'s text if the options are bad, or the loader is empty.
  LoadingCache(LoadingCacheOptions options, Loader loader, Weigher weigher = {}) {
    if (absl::Status valid = Check(options, loader); !valid.ok()) internal::FatalStatus(valid);
    core_ = MakeCore(std::move(options), {.load = std::move(loader), .weigh = std::move(weigher)});
  }
  LoadingCache(LoadingCacheOptions options, Callbacks callbacks) {
    if (absl::Status valid = options.Validate(); !valid.ok()) internal::FatalStatus(valid);
    core_ = MakeCore(std::move(options), std::move(callbacks));
  }
  // One that is filled by GetOrLoad() and Put().
  explicit LoadingCache(LoadingCacheOptions options) : LoadingCache(std::move(options), Callbacks{}) {}

  // InvalidArgument instead of aborting.
  static absl::StatusOr<std::unique_ptr<LoadingCache>> Create(LoadingCacheOptions options, Loader loader,
                                                              Weigher weigher = {}) {
    if (absl::Status valid = Check(options, loader); !valid.ok()) return valid;
    return std::make_unique<LoadingCache>(std::move(options), std::move(loader), std::move(weigher));
  }
  static absl::StatusOr<std::unique_ptr<LoadingCache>> Create(LoadingCacheOptions options, Callbacks callbacks) {
    if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
    return std::make_unique<LoadingCache>(std::move(options), std::move(callbacks));
  }

  // Calls that wait for a load are answered with Cancelled at once. Then waits for every call, loader and refresh that
  // is inside; loads that have not started never do. Must not run within a callback of this cache; a loader or the
  // listener aborts. Does nothing in a forked child.
  ~LoadingCache() {
    if (core_->InForkedChild()) {
      (void)core_.release();
      return;
    }
    core_->Shutdown();
  }

  LoadingCache(const LoadingCache&) = delete;
  LoadingCache& operator=(const LoadingCache&) = delete;

  // The fresh value of `key`, loaded where it is not there; an expired one where the options say so. Errors: the
  // loader's; NotFound, also from memory; DeadlineExceeded: the time-out passed while waiting (the load goes on and is
  // stored), or the load's hard time-out; FailedPrecondition: a loader asked for a key whose load waits for its own;
  // Cancelled: options.stop, or the cache is being destroyed.
  //
  // Where the call runs the loader itself, its deadline is the loader's, and nothing else cuts it short. An error that
  // comes of this call's own deadline or cancellation is for it alone: another call that waits loads again.
  [[gnu::always_inline]] absl::StatusOr<Handle> Get(const Key& key) { return core_->Get(key); }
  absl::StatusOr<Handle> Get(const Key& key, const CacheGetOptions& options) {
    return core_->Get(key, options, nullptr);
  }

  // As Get(), with a loader of the call's own. Calls for one key share a flight whatever their loaders; the first one's
  // runs. A refresh that the call sets off uses it too. It is copied, and may run after the call has returned (on an
  // executor, in the background, for other calls): capture by value, or what outlives the cache.
  template <typename CallLoader>
  absl::StatusOr<Handle> GetOrLoad(const Key& key, const CallLoader& loader, const CacheGetOptions& options = {}) {
    const auto copy = [&]() -> absl::StatusOr<std::shared_ptr<const Loader>> {
      return internal::GuardCallback<absl::StatusOr<std::shared_ptr<const Loader>>>(
          "copying a loader", [&] { return std::make_shared<const Loader>(loader); });
    };
    const typename Core::MakeLoader make_loader = copy;
    return core_->Get(key, options, &make_loader);
  }

  // As a Get() of each of `keys`; the answers are in their order, and one key's error is not the others'. The keys that
  // are missing and that nobody loads are loaded by one call of the batch loader; without one, each by a load of its
  // own: one after another on this thread, at the same time on a load_executor. Repeated keys are looked up once.
  // options.timeout is that of the whole.
  std::vector<absl::StatusOr<Handle>> GetAll(const std::vector<Key>& keys, const CacheGetOptions& options = {}) {
    return core_->GetAll(keys, options);
  }

  // As Get(), without blocking: `done`, which is not empty, is run once, on `executor`, which must outlive that and may
  // be scheduled to by any thread of the cache; it must not destroy the cache there and then. If `executor` throws,
  // `done` runs on the thread at hand; if it drops the task, `done` is destroyed and never runs. The load runs on the
  // load_executor or else the refresh_executor. With options.strict, where the call may wait for a lock, it waits on
  // one of two threads that the cache has for that. ResourceExhausted: a thread of the cache that the call needs cannot
  // be started.
  void GetAsync(const Key& key, Executor& executor, AsyncCallback done, const CacheGetOptions& options = {}) {
    core_->GetAsync(key, executor, std::move(done), options);
  }

  // The value if it is there and fresh. Never loads and never waits for a load; may set off a refresh.
  std::optional<Handle> GetIfPresent(const Key& key) { return core_->GetIfPresent(key); }

  // Loads `key` in the background, if nobody loads it yet, whatever the cache has; that is served until the load has
  // ended, and afterwards if it failed. For a value that must not be served any more there is Invalidate(). Nothing
  // happens, which is logged, if the cache's own threads for that cannot be started.
  void Refresh(const Key& key) { core_->Refresh(key); }

  // Loads those of `keys` that are missing, `parallelism` loads at a time, on threads of its own; returns when all are
  // done. Its lookups do not count as requests. InvalidArgument: the options; FailedPrecondition: called in a loader,
  // an update or a strict read. ResourceExhausted: the system gives fewer threads, and nothing was loaded.
  absl::StatusOr<WarmUpReport> WarmUp(const std::vector<Key>& keys, const WarmUpOptions& options = {}) {
    return core_->WarmUp(keys, options);
  }

  // Stores `value`. Wins over a load that is under way: those who wait for it get `value`, at once, and what it loads
  // is dropped. With a TTL of zero or less the key is merely invalidated.
  void Put(const Key& key, Value value, EntryOptions entry = {}) {
    core_->Put(key, std::move(value), std::move(entry));
  }
  void Put(const Key& key, Value value, Duration ttl) { core_->Put(key, std::move(value), {.ttl = ttl}); }

  // A call that begins after the return sees no value that was stored, nor one whose load had begun, before this one.
  // Absences that were remembered are forgotten too.
  void Invalidate(const Key& key) { core_->Invalidate(key); }
  // The same of all that has the tag, and of loads under way that turn out to have it; shard by shard, not at one
  // instant. O(entries with the tag + loads under way).
  void InvalidateTag(std::string_view tag) { core_->InvalidateTag(tag); }
  // The same of every key; shard by shard. O(entries).
  void InvalidateAll() { core_->InvalidateAll(); }

  // Runs `write`, which writes the key's new value to where the loader reads it, and invalidates the key before and
  // after, whatever `write` returned: one that failed may have written. A call that begins after the return does not
  // see the old value. Holds the key's write lock: one update of a key at a time, and with options.strict no read of
  // it meanwhile but by loaders and by `write` itself, which take no lock. `timeout`: for the lock; steady clock.
  //
  // Returns what `write` returned; what it threw: kInternal. DeadlineExceeded, FailedPrecondition (called in a loader,
  // in a listener that a strict read runs, or within another update of any cache) and Cancelled (the cache is being
  // destroyed): `write` did not run, unless it returned that. `write` must not wait for other threads that read the
  // key.
  absl::Status UpdateThrough(const Key& key, absl::FunctionRef<absl::Status()> write,
                             Duration timeout = absl::InfiniteDuration()) {
    return core_->UpdateThrough(key, write, timeout);
  }

  // Entries and their weight: absences, and expired entries that nobody has asked for since, included. weight() exceeds
  // max_weight by at most one entry for each thread that is storing one at that moment.
  int64_t size() const { return core_->size(); }
  int64_t weight() const { return core_->weight(); }

 private:
  static absl::Status Check(const LoadingCacheOptions& options, const Loader& loader) {
    if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
    return loader ? absl::OkStatus() : internal::EmptyLoaderError(options.name);
  }
  static std::unique_ptr<Core> MakeCore(LoadingCacheOptions options, Callbacks callbacks) {
    return std::make_unique<Core>(std::move(options), std::move(callbacks));
  }

  std::unique_ptr<Core> core_;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOADING_CACHE_H_
