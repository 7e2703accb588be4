#ifndef STOCKADE_INVENTORY_SKU_METRICS_H_
#define STOCKADE_INVENTORY_SKU_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stockade/base/export.h"
#include "stockade/base/mutex.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::inventory_internal {

enum SkuMetric : size_t { kSkuAvailableUnits, kSkuHeldUnits, kSkuSoldUnits };

std::span<const MetricDef> SkuMetricDefs();

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

#endif  // STOCKADE_INVENTORY_SKU_METRICS_H_
