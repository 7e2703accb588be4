#ifndef STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_PEER_H_
#define STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_PEER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <vector>

#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade {

class ShardedStockPeer {
 public:
  // Only while nobody else uses `stock`.
  static void Set(ShardedStock& stock, std::initializer_list<uint64_t> units) {
    size_t shard = 0;
    for (const uint64_t n : units) stock.shards_[shard++].word.store(n);
  }

  static std::vector<uint64_t> Get(const ShardedStock& stock) {
    std::vector<uint64_t> units;
    units.reserve(static_cast<size_t>(stock.max_shards()));
    for (int32_t shard = 0; shard < stock.max_shards(); ++shard) {
      units.push_back(stock.shards_[static_cast<size_t>(shard)].word.load());
    }
    return units;
  }

  static std::unique_lock<ReentrantMutex> LockSlowly(ShardedStock& stock) {
    return std::unique_lock<ReentrantMutex>(*stock.slow_lock_);
  }
};

}  // namespace stockade

#endif  // STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_PEER_H_
