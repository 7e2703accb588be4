#ifndef STOCKADE_INVENTORY_ITEM_H_
#define STOCKADE_INVENTORY_ITEM_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ranked_mutex.h"
#include "stockade/base/thread_slot.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::internal {

// Units that change hands from many threads: a pair of counters a few threads share, added up when they are read.
class OrderedUnits {
 public:
  void Hold(int64_t units) { Mine().held.fetch_add(units, std::memory_order_relaxed); }
  void Sell(int64_t units) { Mine().sold.fetch_add(units, std::memory_order_relaxed); }

  // Exact while nobody changes them. Otherwise what is on its way from one to the other may show in both or in none.
  int64_t held() const { return Sum(&Cell::held); }
  int64_t sold() const { return Sum(&Cell::sold); }

 private:
  static constexpr size_t kCells = 8;
  struct alignas(64) Cell {
    std::atomic<int64_t> held{0};
    std::atomic<int64_t> sold{0};
  };

  Cell& Mine() { return cells_[ThisThreadSlot() % kCells]; }
  int64_t Sum(std::atomic<int64_t> Cell::*count) const {
    int64_t sum = 0;
    for (const Cell& cell : cells_) sum += (cell.*count).load(std::memory_order_relaxed);
    return sum;
  }

  std::array<Cell, kCells> cells_;
};

// One SKU of an inventory. Stays until the inventory ends; a removed one without its stock.
//
// Invariant: granted == stock + held + sold, except within an operation. Operations on orders hold the order's stripe,
// a restock holds `mutex`, and a removal holds all of those, so whoever holds all stripes and `mutex` reads four
// figures that agree.
struct Item {
  Item(std::string name, uint32_t item_number, int64_t buyer_limit, int64_t stocked, ShardedStockOptions options,
       ComponentMetrics* metrics)
      : mutex(LockRank::kItem, item_number, "inventory item"),
        sku(std::move(name)),
        per_buyer_limit(buyer_limit),
        stock(new ShardedStock(std::move(options), metrics)),
        granted(stocked) {}

  bool removed() const { return stock == nullptr; }

  Ranked<ReentrantMutex> mutex;
  OrderedUnits units;  // Changed under the stripe of the order that changes.
  const std::string sku;
  const int64_t per_buyer_limit;  // 0: none.
  // Null once removed: that happens with all stripes, `mutex` and the catalogue locked, so that holding one of them is
  // enough to use it.
  std::unique_ptr<ShardedStock> stock;
  // What was `stock`, from its removal until that is durable. Guarded by mutex.
  std::unique_ptr<ShardedStock> withdrawn = nullptr;
  std::atomic<int64_t> granted;  // Changed under `mutex`, or under an order's stripe once removed.
};

inline int64_t AvailableUnits(const Item& item) { return item.removed() ? 0 : item.stock->ApproximateAvailable(); }

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_ITEM_H_
