// What people and pages see of the SKUs.

#include <algorithm>
#include <new>

#include "local_core.h"

namespace stockade::inventory_internal {

SkuSnapshot LocalCore::SnapshotOf(const Item& item) const {
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

absl::StatusOr<SkuSnapshot> LocalCore::Snapshot(std::string_view sku) {
  const RankedReadLock lock(catalogue_mutex_);
  const Item* const item = Named(sku);
  if (item == nullptr || item->removed()) return checks_.NoSuchSku("Snapshot", sku);
  return SnapshotOf(*item);
}

std::vector<SkuSnapshot> LocalCore::Snapshot() {
  std::vector<SkuSnapshot> all;
  const RankedReadLock lock(catalogue_mutex_);
  all.reserve(items_.size());
  items_.ForEach([&](const NamedItem& named) {
    if (!named.item->removed()) all.push_back(SnapshotOf(*named.item));
  });
  std::ranges::sort(all, {}, &SkuSnapshot::sku);
  return all;
}

void LocalCore::AddGauges() {
  const auto over_all = [this](StockMetric metric, auto read, auto combine) {
    stock_metrics_.AddGauge(metric, [this, read, combine] {
      double result = 0;
      const RankedReadLock lock(catalogue_mutex_);
      items_.ForEach([&](const NamedItem& named) { result = combine(result, static_cast<double>(read(*named.item))); });
      return result;
    });
  };
  const std::plus<> sum;
  over_all(kAvailableUnits, &AvailableUnits, sum);
  over_all(
      kHeldUnits, [](const Item& item) { return item.units.held(); }, sum);
  over_all(
      kSoldUnits, [](const Item& item) { return item.units.sold(); }, sum);
  over_all(
      kOversoldUnits, [](const Item& item) { return item.Oversold(); }, sum);
  stock_metrics_.AddGauge(kBuyersOverLimit, [this] { return static_cast<double>(buyers_.over_limit()); });
  over_all(
      kShardImbalance, [](const Item& item) { return item.removed() ? 0 : item.stock->Imbalance(); },
      [](double a, double b) { return std::max(a, b); });
}

void LocalCore::AddSkuGauges(const Item& item) noexcept try {
  metrics_internal::ComponentMetrics* const metrics = sku_metrics_.Add(item.sku);
  if (metrics == nullptr) return;
  const auto add = [&](SkuMetric metric, auto read) {
    metrics->AddGauge(metric, [this, &item, read] {
      const RankedReadLock lock(catalogue_mutex_);
      return static_cast<double>(read(item));
    });
  };
  add(kSkuAvailableUnits, &AvailableUnits);
  add(kSkuHeldUnits, [](const Item& of) { return of.units.held(); });
  add(kSkuSoldUnits, [](const Item& of) { return of.units.sold(); });
} catch (const std::bad_alloc&) {  // The SKU is added, and can be sold.
}

}  // namespace stockade::inventory_internal
