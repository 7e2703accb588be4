#ifndef STOCKADE_BENCH_CACHE_SHARDED_LRU_H_
#define STOCKADE_BENCH_CACHE_SHARDED_LRU_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace stockade::bench {

// The cache that a service would write: 16 shards, each a mutex, a flat_hash_map and a list in order of use.
class ShardedLru {
 public:
  explicit ShardedLru(size_t capacity) : shard_capacity_(capacity / kShards + 1) {}

  std::optional<uint64_t> Get(uint64_t key) {
    Shard& shard = ShardOf(key);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.entries.find(key);
    if (found == shard.entries.end()) return std::nullopt;
    shard.recent.splice(shard.recent.begin(), shard.recent, found->second);
    return found->second->second;
  }

  void Put(uint64_t key, uint64_t value) {
    Shard& shard = ShardOf(key);
    const std::lock_guard lock(shard.mutex);
    if (const auto found = shard.entries.find(key); found != shard.entries.end()) {
      found->second->second = value;
      return;
    }
    shard.recent.emplace_front(key, value);
    shard.entries.emplace(key, shard.recent.begin());
    if (shard.entries.size() > shard_capacity_) {
      shard.entries.erase(shard.recent.back().first);
      shard.recent.pop_back();
    }
  }

 private:
  static constexpr size_t kShards = 16;

  using Recent = std::list<std::pair<uint64_t, uint64_t>>;

  // Invariant: an entry's iterator points to the element of `recent` with its key, and each element has an entry.
  struct alignas(128) Shard {
    std::mutex mutex;
    absl::flat_hash_map<uint64_t, Recent::iterator> entries;
    Recent recent;  // Most recently used first.
  };

  // The upper bits of a multiplicative hash: the map uses another one.
  Shard& ShardOf(uint64_t key) { return shards_[(key * 0x9E3779B97F4A7C15u) >> 60]; }

  const size_t shard_capacity_;
  std::array<Shard, kShards> shards_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_CACHE_SHARDED_LRU_H_
