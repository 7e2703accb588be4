#ifndef STOCKADE_BENCH_CACHE_SHARDED_LRU_H_
#define STOCKADE_BENCH_CACHE_SHARDED_LRU_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace stockade::bench {

// The cache that a service would write: 16 shards, each a mutex, a flat_hash_map and a list in order of use. Large
// values are shared with those who look them up, small ones are copied. What leaves is freed without a mutex held.
template <typename Value>
class ShardedLru {
 public:
  // What an entry holds, and a lookup gives.
  using Held = std::conditional_t<(sizeof(Value) > 16), std::shared_ptr<const Value>, Value>;

  explicit ShardedLru(size_t capacity) : shard_capacity_(capacity / kShards + 1) {}

  std::optional<Held> Get(uint64_t key) {
    Shard& shard = ShardOf(key);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.entries.find(key);
    if (found == shard.entries.end()) return std::nullopt;
    shard.recent.splice(shard.recent.begin(), shard.recent, found->second);
    return found->second->second;
  }

  void Put(uint64_t key, const Value& value) {
    Held held = Hold(value);
    Recent evicted;
    Shard& shard = ShardOf(key);
    const std::lock_guard lock(shard.mutex);
    if (const auto found = shard.entries.find(key); found != shard.entries.end()) {
      shard.recent.splice(shard.recent.begin(), shard.recent, found->second);
      std::swap(found->second->second, held);
      return;
    }
    shard.recent.emplace_front(key, std::move(held));
    shard.entries.emplace(key, shard.recent.begin());
    if (shard.entries.size() > shard_capacity_) {
      shard.entries.erase(shard.recent.back().first);
      evicted.splice(evicted.begin(), shard.recent, std::prev(shard.recent.end()));
    }
  }

  void Clear() {
    for (Shard& shard : shards_) {
      Entries entries;
      Recent recent;
      const std::lock_guard lock(shard.mutex);
      shard.entries.swap(entries);
      shard.recent.swap(recent);
    }
  }

  // Removes the entries whose key is one of those: of tags it knows nothing, so it looks at all.
  template <typename IsOne>
  void RemoveIf(const IsOne& is_one) {
    for (Shard& shard : shards_) {
      Recent removed;
      const std::lock_guard lock(shard.mutex);
      for (auto at = shard.recent.begin(); at != shard.recent.end();) {
        const auto entry = at++;
        if (!is_one(entry->first)) continue;
        shard.entries.erase(entry->first);
        removed.splice(removed.end(), shard.recent, entry);
      }
    }
  }

  size_t size() {
    size_t size = 0;
    for (Shard& shard : shards_) {
      const std::lock_guard lock(shard.mutex);
      size += shard.entries.size();
    }
    return size;
  }

 private:
  static constexpr size_t kShards = 16;

  using Recent = std::list<std::pair<uint64_t, Held>>;
  using Entries = absl::flat_hash_map<uint64_t, typename Recent::iterator>;

  // Invariant: an entry's iterator points to the element of `recent` with its key, and each element has an entry.
  struct alignas(128) Shard {
    std::mutex mutex;
    Entries entries;
    Recent recent;  // Most recently used first.
  };

  static Held Hold(const Value& value) {
    if constexpr (std::is_same_v<Held, Value>) {
      return value;
    } else {
      return std::make_shared<const Value>(value);
    }
  }

  // The upper bits of a multiplicative hash: the map uses another one.
  Shard& ShardOf(uint64_t key) { return shards_[(key * 0x9E3779B97F4A7C15u) >> 60]; }

  const size_t shard_capacity_;
  std::array<Shard, kShards> shards_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_CACHE_SHARDED_LRU_H_
