#ifndef STOCKADE_INVENTORY_FLEET_FLEET_SHARED_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_SHARED_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fleet_dispenser.h"
#include "fleet_lane.h"
#include "fleet_metrics.h"
#include "fleet_queues.h"
#include "fleet_rows.h"
#include "fleet_sold_out.h"
#include "fleet_stock.h"
#include "inventory_metrics.h"
#include "request_checks.h"
#include "stockade/base/mutex.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::inventory_internal {

// What a process remembers of a SKU for sale. Only hints, except for the limit, which never changes.
struct FleetSkuHint {
  int64_t per_buyer_limit = 0;
  int32_t segments = 1;
  // Requests look before they try, because the last look found fewer units than a request wanted.
  bool scarce = false;
  // A lane's own segment had too little: lanes pay from segment 0, into which the others are merged.
  bool merged = false;
  // It may have segments of Redis nodes.
  bool has_nodes = false;

  int32_t SegmentOf(int32_t lane_index) const { return merged ? 0 : lane_index % segments; }
};

// What the lanes and the callers of a fleet's inventory share. Thread-safe.
struct FleetShared {
  // `dispenser`: null without Redis nodes.
  FleetShared(FleetInventoryOptions options, FleetLedger ledger, std::unique_ptr<FleetDispenser> dispenser);

  // Reads rows of SKUs with ReadSkuRows(), and passes their latches to `sold_out`. False: the ledger cannot be used.
  bool ReadSkus(FleetLane& lane, std::string_view which, FleetSkuRows& rows);
  // Passes the latches of rows to `sold_out`. The read was sent at `sent`.
  void NoteLatches(const FleetSkuRows& rows, Instant sent);
  // Notes that this process has put units into limbo.
  void NoteDeposit(uint64_t sku, const FleetLatch& latch);

  FleetSoldOut sold_out;  // First, because it is aligned.
  const FleetInventoryOptions options;
  const FleetLedger ledger;
  const std::unique_ptr<FleetDispenser> dispenser;
  const RequestChecks checks;
  Clock& clock;

  FleetQueues queues;
  FleetStock stock;
  Mutex hints_mutex;
  absl::flat_hash_map<uint64_t, FleetSkuHint> hints STOCKADE_GUARDED_BY(hints_mutex);
  std::vector<std::unique_ptr<ComponentMetrics>> node_metrics;
  ComponentMetrics metrics;
  ComponentMetrics fleet_metrics;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_SHARED_H_
