#ifndef STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_PEER_H_
#define STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_PEER_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade {

class ShardedStockPeer {
 public:
  // Of the first shards; the others have none. The stock is wide, if it has several. Only while nobody else uses it.
  static void Set(ShardedStock& stock, std::vector<uint64_t> units) {
    const auto shards = static_cast<size_t>(stock.shards());
    units.resize(shards);
    stock.open_.store(ShardedStock::Open(stock.shards()));
    for (size_t i = 0; i < shards; ++i) {
      stock.shards_[i].word.store(units[i] | (shards == 1 ? ShardedStock::kAlone : 0));
    }
  }

  static std::vector<uint64_t> Get(const ShardedStock& stock) {
    std::vector<uint64_t> units;
    units.reserve(static_cast<size_t>(stock.max_shards()));
    for (int32_t shard = 0; shard < stock.max_shards(); ++shard) {
      units.push_back(stock.shards_[static_cast<size_t>(shard)].word.load() & ShardedStock::kUnits);
    }
    return units;
  }

  static std::unique_lock<ReentrantMutex> LockSlowly(ShardedStock& stock) {
    return std::unique_lock<ReentrantMutex>(*stock.slow_lock_);
  }
};

}  // namespace stockade

#endif  // STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_PEER_H_
