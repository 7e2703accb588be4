#ifndef STOCKADE_INVENTORY_LOCAL_INVENTORY_H_
#define STOCKADE_INVENTORY_LOCAL_INVENTORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/inventory/ledger.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// Options of an Inventory in one process: Inventory::Create() and its constructor. All that an answer depends on is in
// the memory of the process. The terms of the class Inventory:
//   ledger           `ledger`, which writes each change before it is acknowledged. Without one, everything is in memory
//                    only, and "durable" means done.
//   basis            The memory. Such a refusal does not wait for the ledger, so a crash may undo the changes that it
//                    rests on.
//   return delay     None. The units of an expired reservation come back when the reaper gets to it: docs/INVENTORY.md,
//                    "What each call does with an order", has figures.
//   unknown outcome  If the ledger fails: such calls are Unavailable, and the units that they took stay taken. All
//                    later calls but reads are Unavailable, also those that would change nothing. Open the ledger again
//                    in a new inventory and repeat the request ids. If the ledger has no room, nothing has changed, and
//                    nothing has to be reopened: the same request id succeeds as soon as there is room.
//   clock            `clock`, when the call runs. After recovery the wall clock says how much of a TTL is left.
//   reads            Memory. After the ledger has failed, Available() is Unavailable, and Find() of an order that may
//                    not be durable; the others go on. Only Find() waits for the ledger, so a crash or a ledger without
//                    room may undo what the others return. Available() costs what ShardedStock::Available() does;
//                    Figures() acquires all request stripes; Snapshot() is O(shards).
//   fairness         None between calls. The requests of one ...Many() are processed in their order.
//   blocking         Short locks: those of the request's and the buyer's stripe, and the item's slow lock. RemoveSku()
//                    acquires all request stripes, for O(stripes); ReserveBasket() stops the shards of its SKUs for a
//                    moment. If the ledger's queue is full (SqliteLedgerOptions::max_queued_records), calls that change
//                    something block, and so do calls that need the same locks.
//   shards           See ShardedStockOptions::shards and ShardedStock::Reshard(). Reshard() is not written to the
//                    ledger: after recovery a SKU has the number that AddSku() gave it.
struct STOCKADE_EXPORT InventoryOptions {
  // The inventory's name in messages and the value of the metrics label `inventory`. Must not be empty and must be
  // printable UTF-8 without control characters.
  std::string name = "default";
  // Every change is written to the ledger before it is acknowledged, and the inventory starts from the ledger's
  // contents. Null keeps everything in memory only, until the inventory is destroyed.
  std::unique_ptr<Ledger> ledger = nullptr;
  // Must outlive the inventory. Not null.
  Clock* clock = Clock::System();
  // Null disables metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();
  // The number of locks for request records, and of those for buyers: 1 to 4096. With 64 locks, two of eight busy
  // threads seldom contend. Each lock uses some 2 KiB.
  int32_t stripes = 64;
  // How long an order is kept after it was sold, cancelled or has expired, or after units of it came back last. Until
  // then a repeated request gets the first answer, the order's id is known, and units of it may come back. Afterwards a
  // repeated request is refused (kRequestForgotten) and still takes nothing: a fingerprint of the request id, some 20
  // bytes, is kept for good. Must be above 0. If infinite, orders are kept for good, in some 300 bytes each. The
  // default of one day is longer than clients usually retry.
  Duration retention = absl::Hours(24);
  // How long after it was granted Inventory::Extend() may let a reservation last; one with a longer TTL of its own
  // keeps that. 0: none is extended. At most 36,500 days.
  Duration max_hold = absl::Hours(1);
  // The largest number of shards that Reshard() may give a SKU, at 128 bytes each: 0 to kMaxShards. If a SKU begins
  // with more shards, that number is its maximum.
  int32_t max_shards = 0;
  // How many SKUs have their own series (stockade_inventory_sku_..., label `sku`): the first ones that are added. Each
  // SKU uses three series for the lifetime of the registry. 0 or more.
  int32_t sku_metrics = 0;

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_LOCAL_INVENTORY_H_
