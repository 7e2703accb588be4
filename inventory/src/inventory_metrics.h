#ifndef STOCKADE_INVENTORY_INVENTORY_METRICS_H_
#define STOCKADE_INVENTORY_INVENTORY_METRICS_H_

#include <cstddef>
#include <span>

#include "stockade/base/export.h"
#include "stockade/inventory/refusal.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::inventory_internal {

// The order of InventoryMetricDefs(): what every inventory counts of its calls.
enum InventoryMetric : size_t {
  kTakes,
  kReservations,
  kCommits,
  kCancels,
  kExpirations,
  kRestocks,
  kRepeats,
  kRefusedSoldOut,  // The refusals follow the order of Refusal, from kSoldOut on.
  kRefusedAllHeld,
  kRefusedUnknownSku,
  kRefusedUnavailable,
  kRefusedBuyerLimit,
  kRefusedRequestMismatch,
  kRefusedRequestForgotten,
  kRefusedInvalid,
  kReserveSeconds,
};

// The order of StockMetricDefs(): of stock in this process. From kAvailableUnits to kBuyersOverLimit also of a fleet.
enum StockMetric : size_t {
  kFreezes,
  kSteals,
  kNarrowings,
  kAvailableUnits,
  kHeldUnits,
  kSoldUnits,
  kOversoldUnits,
  kBuyersOverLimit,
  kShardImbalance,
  kFreezeSeconds,
};

STOCKADE_EXPORT std::span<const MetricDef> InventoryMetricDefs();
STOCKADE_EXPORT std::span<const MetricDef> StockMetricDefs();

// Where refusals of this kind are counted. Not for kNone.
STOCKADE_EXPORT InventoryMetric RefusalMetric(Refusal refusal);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_INVENTORY_METRICS_H_
