#ifndef STOCKADE_INVENTORY_ORDER_RECORD_H_
#define STOCKADE_INVENTORY_ORDER_RECORD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "stockade/base/instant.h"
#include "stockade/inventory/inventory.h"

namespace stockade::internal {

// One SKU of an inventory. Never destroyed before the inventory.
//
// Invariant: granted == stock + held + sold, except within an operation. Operations hold a request's stripe, a restock
// restock_mutex, so whoever holds all stripes and restock_mutex reads four figures that agree.
struct Item {
  Item(std::string sku_name, const SkuOptions& options, int64_t available, ComponentMetrics* metrics)
      : sku(sku_name),
        per_buyer_limit(options.per_buyer_limit),
        stock({.name = std::move(sku_name), .stock = available, .shards = options.shards}, metrics),
        granted(options.stock) {}

  const std::string sku;
  const int64_t per_buyer_limit;  // 0: none.
  ShardedStock stock;
  std::mutex restock_mutex;
  std::atomic<int64_t> granted;  // Changed under restock_mutex.
  std::atomic<int64_t> held{0};  // These two: changed under the stripe of the order that changes.
  std::atomic<int64_t> sold{0};
};

// What a request got. Never destroyed before the inventory, so pointers to it need no lock.
struct OrderRecord {
  // Set once, before others see the record.
  const OrderId id;
  Item* const item;
  const int64_t quantity;
  const std::string request_id;
  const std::string buyer;
  const bool reserved;  // By Reserve(); false: by Take().
  const absl::Duration ttl;
  const absl::Time expires_at;
  const Instant deadline;  // Infinite unless reserved.

  // Guarded by the request's stripe. kHeld becomes one of the others, once.
  OrderState state;
  // Of its last record in the ledger; 0: durable since recovery, or no ledger. Whoever tells of the order waits for it.
  uint64_t position = 0;
};

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_ORDER_RECORD_H_
