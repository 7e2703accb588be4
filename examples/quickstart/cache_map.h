#ifndef STOCKADE_EXAMPLES_QUICKSTART_CACHE_MAP_H_
#define STOCKADE_EXAMPLES_QUICKSTART_CACHE_MAP_H_

#include <cstddef>
#include <stdexcept>
#include <utility>

#include "stockade/cache/loading_cache.h"

namespace quickstart {

// The common calls of a std::unordered_map over a cache, for code that keeps a map and a mutex as its cache. find()
// returns a handle in place of an iterator: it converts to false if there is no value, and keeps the value otherwise,
// whatever becomes of the entry. Thread-safe.
template <typename Key, typename Value>
class CacheMap {
 public:
  using handle = stockade::CacheHandle<Value>;

  explicit CacheMap(stockade::LoadingCacheOptions options) : cache_(std::move(options)) {}

  handle find(const Key& key) { return cache_.GetIfPresent(key).value_or(handle()); }
  bool contains(const Key& key) { return static_cast<bool>(find(key)); }
  Value at(const Key& key) {
    if (const handle found = find(key)) return *found;
    throw std::out_of_range("CacheMap::at");
  }
  void insert_or_assign(const Key& key, Value value) { cache_.Put(key, std::move(value)); }
  void erase(const Key& key) { cache_.Invalidate(key); }
  void clear() { cache_.InvalidateAll(); }
  size_t size() const { return static_cast<size_t>(cache_.size()); }
  bool empty() const { return size() == 0; }

 private:
  stockade::LoadingCache<Key, Value> cache_;
};

}  // namespace quickstart

#endif  // STOCKADE_EXAMPLES_QUICKSTART_CACHE_MAP_H_
