#include "inventory_metrics.h"

namespace stockade::inventory_internal {
namespace {

constexpr std::string_view kRefusalsName = "stockade_inventory_refusals_total";
constexpr std::string_view kRefusalsHelp = "Reserve, ReserveBasket and Take calls that were refused, by reason.";

constexpr MetricDef kDefs[] = {
    {MetricType::kCounter, "stockade_inventory_takes_total", "Requests that bought units at once."},
    {MetricType::kCounter, "stockade_inventory_reservations_total", "Requests that reserved units."},
    {MetricType::kCounter, "stockade_inventory_commits_total", "Reservations that became sold."},
    {MetricType::kCounter, "stockade_inventory_cancels_total", "Reservations that were cancelled."},
    {MetricType::kCounter, "stockade_inventory_expirations_total", "Reservations that expired and were reaped."},
    {MetricType::kCounter, "stockade_inventory_extensions_total",
     "Extend calls after which a reservation lasts longer."},
    {MetricType::kCounter, "stockade_inventory_returns_total", "Return calls that took sold units back."},
    {MetricType::kCounter, "stockade_inventory_restocks_total", "Restock calls that added units."},
    {MetricType::kCounter, "stockade_inventory_repeats_total",
     "Repeated requests that were answered from the record of their request id."},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "sold_out"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "all_held"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "unknown_sku"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "unavailable"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "buyer_limit"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "request_mismatch"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "request_forgotten"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "invalid"},
    {MetricType::kSecondsHistogram, "stockade_inventory_reserve_seconds",
     "Duration of a Reserve, ReserveBasket or Take call that was not refused, including the wait for the ledger; "
     "without a ledger, a sample of 1 in 64 calls per thread."},
};
static_assert(std::size(kDefs) == kReserveSeconds + 1);

constexpr MetricDef kStockDefs[] = {
    {MetricType::kCounter, "stockade_inventory_freezes_total",
     "Times that an item's shards were stopped: to combine units of several shards, to refuse a take, for an exact "
     "total, or to move units between few shards and many."},
    {MetricType::kCounter, "stockade_inventory_steals_total",
     "Takes that were served by a single shard other than the calling thread's own."},
    {MetricType::kCounter, "stockade_inventory_narrowings_total",
     "Times that an item had fewer units than shards, and all of them were moved into one shard."},
    {MetricType::kGauge, "stockade_inventory_available_units", "Units that can be taken, over all SKUs."},
    {MetricType::kGauge, "stockade_inventory_held_units", "Units held by reservations, over all SKUs."},
    {MetricType::kGauge, "stockade_inventory_sold_units", "Units sold, over all SKUs."},
    {MetricType::kGauge, "stockade_inventory_oversold_units",
     "Units held or sold in excess of those ever stocked, over all SKUs: must be 0; a nonzero value is a bug."},
    {MetricType::kGauge, "stockade_inventory_over_limit_buyers",
     "Buyers with more units of a SKU than its limit allows, over all SKUs: must be 0; a nonzero value is a bug."},
    {MetricType::kGauge, "stockade_inventory_shard_imbalance",
     "Units of the fullest shard in use divided by the mean of the shards in use (1 is even); the maximum over all "
     "SKUs."},
    {MetricType::kSecondsHistogram, "stockade_inventory_freeze_seconds",
     "Duration for which an item's shards were stopped; a sample of 1 in 16 freezes per thread."},
};
static_assert(std::size(kStockDefs) == kFreezeSeconds + 1);

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

std::span<const MetricDef> InventoryMetricDefs() { return kDefs; }
std::span<const MetricDef> StockMetricDefs() { return kStockDefs; }

InventoryMetric RefusalMetric(Refusal refusal) {
  return static_cast<InventoryMetric>(kRefusedSoldOut + static_cast<size_t>(refusal) -
                                      static_cast<size_t>(Refusal::kSoldOut));
}

ComponentMetrics* SkuMetrics::Add(const std::string& sku) {
  const MutexLock lock(mutex_);
  if (registry_ == nullptr || skus_.size() >= limit_) return nullptr;
  skus_.push_back(
      std::make_unique<ComponentMetrics>(registry_, kSkuDefs, MetricLabels{{"inventory", inventory_}, {"sku", sku}}));
  return skus_.back().get();
}

}  // namespace stockade::inventory_internal
