#ifndef STOCKADE_CACHE_CACHE_CALLBACKS_H_
#define STOCKADE_CACHE_CACHE_CALLBACKS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/cache/batch_load.h"
#include "stockade/cache/cache_codec.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/load_context.h"
#include "stockade/cache/removal.h"

namespace stockade {

// The callbacks of a cache. All may be invoked by several threads at once, and do not block operations on other keys
// while they run. Exceptions that they throw are caught: see LoadingCache.
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
struct CacheCallbacks {
  // The argument of a batch loader.
  using Batch = BatchLoad<Key, Value, Hash, Eq>;

  // At most two loads of a key run at the same time. NotFoundError means that the key has no value, and is cached for
  // negative_ttl; other errors are cached for error_ttl. Accepts functions of (const Key&, LoadContext&) or of (const
  // Key&).
  using Loader = CacheLoader<Key, Value>;
  // Loads the missing keys of a GetAll() in one call, or in several of at most max_batch keys, each of them once.
  // Otherwise like Loader.
  using BatchLoader = std::function<absl::Status(const std::vector<Key>&, Batch&)>;
  // The weight of an entry, in the unit of max_weight. A weight below 1 counts as 1. If the weigher throws, the value
  // is returned and not stored.
  using Weigher = std::function<int64_t(const Key&, const Value&)>;
  // Invoked once for each value that leaves the cache, by the thread that removed it, after the removal. Values that
  // another process has invalidated through a tier are reported by a thread of the cache's own, in the order of the
  // invalidations, so that a slow listener does not delay the tier's heartbeats. Until they are reported, they use
  // memory that weight() does not count. May call the cache; values that this removes are reported after it has
  // returned. Exceptions are logged. Not invoked for absences, nor for the values that the cache contains when it is
  // destroyed. If there is no memory for the call, it is left out, which is logged.
  using RemovalListener = std::function<void(const Key&, const CacheHandle<Value>&, RemovalCause)>;

  // Invoked after each load of a key that failed: with the loader's error, Internal if the loader threw,
  // DeadlineExceeded if the hard time-out passed, or ResourceExhausted if an executor dropped the load; by the thread
  // that has answered its callers. For logs and breakers: it knows also of loads in the background, and of those whose
  // callers got a stale value. Not invoked for NotFound, for Cancelled, nor if the load failed because the call that
  // ran it passed its deadline or was stopped. May call the cache. Exceptions are logged.
  using LoadErrorListener = std::function<void(const Key&, const absl::Status&)>;

  // Without `load`, a single key is loaded as a batch of one. Without `load` and `load_all`, values come from
  // GetOrLoad() and Put(), and a Get() that would have to load is FailedPrecondition. Without a weigher each entry
  // weighs 1.
  Loader load = {};
  BatchLoader load_all = {};
  Weigher weigh = {};
  RemovalListener on_removal = {};
  LoadErrorListener on_load_error = {};
  // For a cache with a tier.
  CacheCodec<Key, Value> codec = {};
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_CACHE_CALLBACKS_H_
