// What people and pages see of the SKUs.

#include <algorithm>

#include "core.h"

namespace stockade {

SkuSnapshot Inventory::Core::SnapshotOf(const Item& item) const {
  StockSnapshot stock = item.stock->Snapshot();
  return {.sku = item.sku,
          .granted = item.granted(),
          .available = stock.units,
          .held = item.units.held(),
          .sold = item.units.sold(),
          .per_buyer_limit = item.per_buyer_limit,
          .sold_out = stock.units == 0,
          .shards = item.stock->shards(),
          .shard_units = std::move(stock.shard_units)};
}

absl::StatusOr<SkuSnapshot> Inventory::Core::Snapshot(std::string_view sku) {
  const inventory_internal::RankedReadLock lock(catalogue_mutex_);
  const auto found = items_.find(sku);
  if (found == items_.end() || found->second->removed()) return NoSuchSku("Snapshot", sku);
  return SnapshotOf(*found->second);
}

std::vector<SkuSnapshot> Inventory::Core::Snapshot() {
  std::vector<SkuSnapshot> all;
  const inventory_internal::RankedReadLock lock(catalogue_mutex_);
  all.reserve(items_.size());
  for (const auto& [sku, item] : items_) {
    if (!item->removed()) all.push_back(SnapshotOf(*item));
  }
  return all;
}

void Inventory::Core::AddGauges() {
  const auto over_all = [this](inventory_internal::InventoryMetric metric, auto read, auto combine) {
    metrics_.AddGauge(metric, [this, read, combine] {
      double result = 0;
      const inventory_internal::RankedReadLock lock(catalogue_mutex_);
      for (const auto& [sku, item] : items_) result = combine(result, static_cast<double>(read(*item)));
      return result;
    });
  };
  const std::plus<> sum;
  over_all(inventory_internal::kAvailableUnits, &inventory_internal::AvailableUnits, sum);
  over_all(
      inventory_internal::kHeldUnits, [](const Item& item) { return item.units.held(); }, sum);
  over_all(
      inventory_internal::kSoldUnits, [](const Item& item) { return item.units.sold(); }, sum);
  over_all(
      inventory_internal::kOversoldUnits, [](const Item& item) { return item.Oversold(); }, sum);
  over_all(
      inventory_internal::kShardImbalance,
      [](const Item& item) { return item.removed() ? 0 : item.stock->Imbalance(); },
      [](double a, double b) { return std::max(a, b); });
}

void Inventory::Core::AddSkuGauges(const Item& item) {
  metrics_internal::ComponentMetrics* const metrics = sku_metrics_.Add(item.sku);
  if (metrics == nullptr) return;
  const auto add = [&](inventory_internal::SkuMetric metric, auto read) {
    metrics->AddGauge(metric, [this, &item, read] {
      const inventory_internal::RankedReadLock lock(catalogue_mutex_);
      return static_cast<double>(read(item));
    });
  };
  add(inventory_internal::kSkuAvailableUnits, &inventory_internal::AvailableUnits);
  add(inventory_internal::kSkuHeldUnits, [](const Item& of) { return of.units.held(); });
  add(inventory_internal::kSkuSoldUnits, [](const Item& of) { return of.units.sold(); });
}

}  // namespace stockade
