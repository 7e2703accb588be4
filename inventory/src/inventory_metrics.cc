#include "inventory_metrics.h"

namespace stockade::internal {
namespace {

constexpr std::string_view kRefusalsName = "stockade_inventory_refusals_total";
constexpr std::string_view kRefusalsHelp = "Reserve, ReserveBasket and Take calls that were refused, by reason.";

constexpr MetricDef kDefs[] = {
    {MetricType::kCounter, "stockade_inventory_takes_total", "Requests that bought units at once."},
    {MetricType::kCounter, "stockade_inventory_reservations_total", "Requests that had units set aside."},
    {MetricType::kCounter, "stockade_inventory_commits_total", "Reservations that became sold."},
    {MetricType::kCounter, "stockade_inventory_cancels_total", "Reservations that were cancelled."},
    {MetricType::kCounter, "stockade_inventory_expirations_total", "Reservations that ran out and were reaped."},
    {MetricType::kCounter, "stockade_inventory_restocks_total", "Restock calls that added units, however many."},
    {MetricType::kCounter, "stockade_inventory_repeats_total",
     "Requests answered from the record of an earlier one of the same request id."},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "sold_out"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "all_held"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "unknown_sku"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "unavailable"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "buyer_limit"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "request_mismatch"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "request_forgotten"},
    {MetricType::kCounter, kRefusalsName, kRefusalsHelp, "reason", "invalid"},
    {MetricType::kCounter, "stockade_inventory_freezes_total",
     "Times an item's shards were stopped, to gather units from several, to refuse, or for an exact total."},
    {MetricType::kCounter, "stockade_inventory_steals_total",
     "Takes that were served by one shard, but not the calling thread's own."},
    {MetricType::kCounter, "stockade_inventory_latches_total",
     "Times an item was found empty and latched: from then on a refusal is one load."},
    {MetricType::kGauge, "stockade_inventory_available_units", "Units that can be taken, over all SKUs."},
    {MetricType::kGauge, "stockade_inventory_held_units", "Units held by reservations, over all SKUs."},
    {MetricType::kGauge, "stockade_inventory_sold_units", "Units sold, over all SKUs."},
    {MetricType::kGauge, "stockade_inventory_oversold_units",
     "Units held or sold beyond those that were ever put up, over all SKUs: 0, or units were made of nothing."},
    {MetricType::kGauge, "stockade_inventory_shard_imbalance",
     "Units of the richest shard in use over the mean of those in use, 1 being even; over all SKUs, the greatest."},
    {MetricType::kSecondsHistogram, "stockade_inventory_reserve_seconds",
     "Time of a Reserve, ReserveBasket or Take call that was not refused, the wait for the ledger included; without a "
     "ledger a sample: one in 64 of a thread's."},
    {MetricType::kSecondsHistogram, "stockade_inventory_freeze_seconds",
     "How long an item's shards were stopped; a sample: one freeze in 16 of a thread's."},
};
static_assert(std::size(kDefs) == kFreezeSeconds + 1);

}  // namespace

std::span<const MetricDef> InventoryMetricDefs() { return kDefs; }

InventoryMetric RefusalMetric(Refusal refusal) {
  return static_cast<InventoryMetric>(kRefusedSoldOut + static_cast<size_t>(refusal) -
                                      static_cast<size_t>(Refusal::kSoldOut));
}

}  // namespace stockade::internal
