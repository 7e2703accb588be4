#include "sku_metrics.h"

namespace stockade::inventory_internal {
namespace {

constexpr MetricDef kSkuDefs[] = {
    {MetricType::kGauge, "stockade_inventory_sku_available_units",
     "Units of a SKU that can be taken, for the first `sku_metrics` SKUs of the options."},
    {MetricType::kGauge, "stockade_inventory_sku_held_units",
     "Units of a SKU held by reservations, for the first `sku_metrics` SKUs of the options."},
    {MetricType::kGauge, "stockade_inventory_sku_sold_units",
     "Units of a SKU sold, for the first `sku_metrics` SKUs of the options."},
};
static_assert(std::size(kSkuDefs) == kSkuSoldUnits + 1);

}  // namespace

std::span<const MetricDef> SkuMetricDefs() { return kSkuDefs; }

ComponentMetrics* SkuMetrics::Add(const std::string& sku) {
  const MutexLock lock(mutex_);
  if (registry_ == nullptr || skus_.size() >= limit_) return nullptr;
  skus_.push_back(std::make_unique<ComponentMetrics>(registry_, SkuMetricDefs(),
                                                     MetricLabels{{"inventory", inventory_}, {"sku", sku}}));
  return skus_.back().get();
}

}  // namespace stockade::inventory_internal
