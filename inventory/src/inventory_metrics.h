#ifndef STOCKADE_INVENTORY_INVENTORY_METRICS_H_
#define STOCKADE_INVENTORY_INVENTORY_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stockade/base/export.h"
#include "stockade/base/mutex.h"
#include "stockade/inventory/refusal.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::inventory_internal {

// The order of InventoryMetricDefs(): what every inventory counts of its calls.
enum InventoryMetric : size_t {
  kTakes,
  kReservations,
  kCommits,
  kCancels,
  kExpirations,
  kExtensions,
  kReturns,
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

// Of one SKU.
enum SkuMetric : size_t { kSkuAvailableUnits, kSkuHeldUnits, kSkuSoldUnits };

STOCKADE_EXPORT std::span<const MetricDef> InventoryMetricDefs();
STOCKADE_EXPORT std::span<const MetricDef> StockMetricDefs();

// Where refusals of this kind are counted. Not for kNone.
STOCKADE_EXPORT InventoryMetric RefusalMetric(Refusal refusal);

// Series with the name of a SKU in them, for the first few SKUs of an inventory: what a label costs is paid for each of
// its values, for ever. Thread-safe; calls the registry, so not to be used under a lock that a gauge takes.
class STOCKADE_EXPORT SkuMetrics {
 public:
  // `limit`: for how many.
  SkuMetrics(MetricsRegistry* registry, std::string inventory, int32_t limit)
      : registry_(registry), inventory_(std::move(inventory)), limit_(static_cast<size_t>(limit)) {}

  // Adds the gauges of `sku`, which is new. Null: it has none. As ComponentMetrics, to be filled by one thread.
  ComponentMetrics* Add(const std::string& sku);

 private:
  MetricsRegistry* const registry_;
  const std::string inventory_;
  const size_t limit_;
  Mutex mutex_;
  std::vector<std::unique_ptr<ComponentMetrics>> skus_ STOCKADE_GUARDED_BY(mutex_);  // At most limit_.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_INVENTORY_METRICS_H_
