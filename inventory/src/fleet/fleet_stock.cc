#include "fleet_stock.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace stockade::inventory_internal {

FleetStock::FleetStock(const FleetInventoryOptions& options)
    : clock_(*options.clock),
      sku_metrics_(options.metrics, options.name, options.sku_metrics),
      metrics_(options.metrics, StockMetricDefs().subspan(kAvailableUnits, kBuyersOverLimit - kAvailableUnits + 1),
               {{"inventory", options.name}}) {
  const auto add = [this](StockMetric metric, std::function<double(const Figures&)> read) {
    Add(metrics_, metric - kAvailableUnits, std::move(read));
  };
  add(kAvailableUnits, [](const Figures& of) { return static_cast<double>(of.all.available); });
  add(kHeldUnits, [](const Figures& of) { return static_cast<double>(of.all.held); });
  add(kSoldUnits, [](const Figures& of) { return static_cast<double>(of.all.sold); });
  add(kOversoldUnits, [](const Figures& of) { return static_cast<double>(of.oversold); });
  add(kBuyersOverLimit, [](const Figures& of) { return static_cast<double>(of.buyers_over_limit); });
}

void FleetStock::Add(ComponentMetrics& to, size_t metric, std::function<double(const Figures&)> read) {
  to.AddGauge(metric, [this, read = std::move(read)] {
    const MutexLock lock(mutex_);
    if (!has_figures_ || clock_.Now() >= export_end_) return std::numeric_limits<double>::quiet_NaN();
    return read(figures_);
  });
}

void FleetStock::Set(Figures figures) {
  for (const auto& [sku, units] : figures.skus) {
    if (named_.contains(sku)) continue;
    ComponentMetrics* const metrics = sku_metrics_.Add(sku);
    if (metrics == nullptr) break;
    named_.insert(sku);
    const auto add = [&](SkuMetric metric, int64_t Units::*number) {
      Add(*metrics, metric, [name = sku, number](const Figures& of) {
        const auto found = of.skus.find(name);
        return found == of.skus.end() ? std::numeric_limits<double>::quiet_NaN()
                                      : static_cast<double>(found->second.*number);
      });
    };
    add(kSkuAvailableUnits, &Units::available);
    add(kSkuHeldUnits, &Units::held);
    add(kSkuSoldUnits, &Units::sold);
  }
  const MutexLock lock(mutex_);
  figures_ = std::move(figures);
  has_figures_ = true;
}

void FleetStock::ExportUntil(Instant end) {
  const MutexLock lock(mutex_);
  export_end_ = end;
}

void FleetStock::SetOverdue(Instant since) {
  const MutexLock lock(mutex_);
  overdue_since_ = since;
}

double FleetStock::OverdueSeconds() const {
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  return now >= export_end_ ? 0.0 : std::max(absl::ToDoubleSeconds(now - overdue_since_), 0.0);
}

void FleetStock::Clear() {
  const MutexLock lock(mutex_);
  has_figures_ = false;
  overdue_since_ = Instant::InfiniteFuture();
}

}  // namespace stockade::inventory_internal
