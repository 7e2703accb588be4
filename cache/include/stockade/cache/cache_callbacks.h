#ifndef STOCKADE_CACHE_CACHE_CALLBACKS_H_
#define STOCKADE_CACHE_CACHE_CALLBACKS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/cache/batch_load.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/load_context.h"
#include "stockade/cache/removal.h"

namespace stockade {

// What a cache calls. All may be called by many threads at once, and hold up no other key while they run. What they
// throw is caught: see LoadingCache.
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
struct CacheCallbacks {
  // What a batch loader fills.
  using Batch = BatchLoad<Key, Value, Hash, Eq>;

  // For one key at most twice at once. NotFoundError says that the key has no value, and is remembered for
  // negative_ttl; other errors are remembered for error_ttl. A function of (const Key&, LoadContext&) or of (const
  // Key&) will do.
  using Loader = CacheLoader<Key, Value>;
  // Loads the keys of a GetAll() that are missing, in one call, each of them once. As Loader otherwise.
  using BatchLoader = std::function<absl::Status(const std::vector<Key>&, Batch&)>;
  // What an entry weighs, in the unit of max_weight. Less than 1 counts as 1. A value whose weigher throws is returned
  // and not stored.
  using Weigher = std::function<int64_t(const Key&, const Value&)>;
  // Told of each value that leaves the cache, once, by the thread that removed it, after the removal. May call the
  // cache; what it thereby removes is told when it has returned. What it throws is logged. Absences are not told, nor
  // is what the cache still holds when it is destroyed.
  using RemovalListener = std::function<void(const Key&, const CacheHandle<Value>&, RemovalCause)>;

  // Without `load` a batch of one key is loaded in its place; without either, values come from GetOrLoad() and Put(),
  // and a Get() that would have to load is FailedPrecondition. Without a weigher an entry weighs 1.
  Loader load = {};
  BatchLoader load_all = {};
  Weigher weigh = {};
  RemovalListener on_removal = {};
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_CACHE_CALLBACKS_H_
