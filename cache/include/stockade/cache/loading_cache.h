#ifndef STOCKADE_CACHE_LOADING_CACHE_H_
#define STOCKADE_CACHE_LOADING_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/log.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/internal/cache_core.h"
#include "stockade/cache/load_context.h"
#include "stockade/cache/loading_cache_options.h"

namespace stockade {

// A cache that fills itself, and runs its loader once for a key however many callers miss it at the same moment.
//
//   stockade::LoadingCache<std::string, Product> products(
//       {.name = "products", .max_weight = 100'000, .ttl = absl::Minutes(5)},
//       [&](const std::string& id, stockade::LoadContext& load) -> absl::StatusOr<Product> {
//         return db.Fetch(id, load.deadline());
//       });
//   absl::StatusOr<stockade::CacheHandle<Product>> p = products.Get("air-force-one");
//
// A key has at most one current flight, which is one run of the loader; whoever misses the key meanwhile waits for it
// and gets its result: the value, the error, or what the loader threw (kInternal). No lock is held while a loader runs.
//
// What is invalidated stays invalid: a flight that was under way when its key was invalidated goes on for those who
// already waited, but its result is not stored and no later call sees it. At most two loads of one key run at once,
// however often it is invalidated; calls beyond that wait for the next.
//
// A loader may call the cache, and other caches. Its loads run on its own thread. One that asks for its own key, or
// would close a circle with the loaders that other threads run (A needs B while B needs A), gets FailedPrecondition.
// This sees calls made on the loader's thread; of threads that a loader starts it knows nothing.
//
// Thread-safe. Blocks: Get() where it loads or waits for a load, the destructor, and all calls for moments on a mutex
// of 1/16 of the keys. Calls are O(1) expected, but for InvalidateAll(). `Key` is copyable; `Value` is movable and is
// never changed once stored. Destructors of keys and values and the weigher run without a lock. Hash and Eq must not
// throw.
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
class LoadingCache {
 public:
  // Called by many threads at once, for different keys, and for one key at most twice. NotFoundError says that the key
  // has no value, and is remembered for negative_ttl; other errors are not remembered.
  using Loader = std::function<absl::StatusOr<Value>(const Key&, LoadContext&)>;
  // What an entry weighs, in the unit of max_weight. Less than 1 counts as 1. A value whose weigher throws is returned
  // and not stored.
  using Weigher = std::function<int64_t(const Key&, const Value&)>;

  // Aborts with Validate()'s text if the options are bad, or the loader is empty. Without a weigher an entry weighs 1.
  LoadingCache(LoadingCacheOptions options, Loader loader, Weigher weigher = {})
      : core_(MakeCore(std::move(options), std::move(loader), std::move(weigher))) {}

  // InvalidArgument instead of aborting.
  static absl::StatusOr<std::unique_ptr<LoadingCache>> Create(LoadingCacheOptions options, Loader loader,
                                                              Weigher weigher = {}) {
    if (absl::Status valid = Check(options, loader); !valid.ok()) return valid;
    return std::make_unique<LoadingCache>(std::move(options), std::move(loader), std::move(weigher));
  }

  // Calls that wait for a load are answered with Cancelled at once. Then waits for every call, loader and refresh that
  // is inside; loads that have not started never do. Aborts on a thread that runs a loader of this cache. Does nothing
  // in a forked child.
  ~LoadingCache() {
    if (core_->InForkedChild()) {
      (void)core_.release();
      return;
    }
    core_->Shutdown();
  }

  LoadingCache(const LoadingCache&) = delete;
  LoadingCache& operator=(const LoadingCache&) = delete;

  // The fresh value of `key`, loaded where it is not there. Errors: the loader's; NotFound, also from memory;
  // DeadlineExceeded: the time-out passed while waiting (the load goes on and is stored); FailedPrecondition: a loader
  // asked for a key whose load waits for its own; Cancelled: the cache is being destroyed.
  //
  // Where the call runs the loader itself, its deadline is the loader's, and nothing else cuts it short.
  absl::StatusOr<CacheHandle<Value>> Get(const Key& key) { return core_->Get(key, CacheGetOptions{}); }
  absl::StatusOr<CacheHandle<Value>> Get(const Key& key, const CacheGetOptions& options) {
    return core_->Get(key, options);
  }

  // The value if it is there and fresh. Never loads and never waits for a load; may set off a refresh-ahead.
  std::optional<CacheHandle<Value>> GetIfPresent(const Key& key) { return core_->GetIfPresent(key); }

  // Stores `value`, for `ttl` where given (zero or negative: the key is merely invalidated). Wins over a load that is
  // under way: those who wait for it get `value`, at once, and what it loads is dropped.
  void Put(const Key& key, Value value) { core_->Put(key, std::move(value), std::nullopt); }
  void Put(const Key& key, Value value, absl::Duration ttl) { core_->Put(key, std::move(value), ttl); }

  // A Get() that begins after the return sees no value that was stored, nor one whose load had begun, before the call.
  // Absences that were remembered are forgotten too.
  void Invalidate(const Key& key) { core_->Invalidate(key); }
  // The same of every key; shard by shard, not at one instant. O(entries).
  void InvalidateAll() { core_->InvalidateAll(); }

  // Entries and their weight: absences, and expired entries that nobody has asked for since, included. weight() exceeds
  // max_weight by at most one entry for each thread that is storing one at that moment.
  int64_t size() const { return core_->size(); }
  int64_t weight() const { return core_->weight(); }

 private:
  using Core = internal::CacheCore<Key, Value, Hash, Eq>;

  static absl::Status Check(const LoadingCacheOptions& options, const Loader& loader) {
    if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
    if (!loader) return internal::EmptyLoaderError(options.name);
    return absl::OkStatus();
  }

  static std::unique_ptr<Core> MakeCore(LoadingCacheOptions options, Loader loader, Weigher weigher) {
    if (absl::Status valid = Check(options, loader); !valid.ok()) internal::FatalStatus(valid);
    return std::make_unique<Core>(std::move(options), std::move(loader), std::move(weigher));
  }

  std::unique_ptr<Core> core_;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOADING_CACHE_H_
