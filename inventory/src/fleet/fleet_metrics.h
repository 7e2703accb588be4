#ifndef STOCKADE_INVENTORY_FLEET_FLEET_METRICS_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_METRICS_H_

#include <cstddef>
#include <iterator>

#include "stockade/metrics/metric_set.h"

namespace stockade::inventory_internal {

// The order of kFleetMetricDefs: what an inventory of a fleet counts besides InventoryMetricDefs().
enum FleetMetric : size_t {
  kRefusedByLease,
  kRefusedByLedger,
  kSkusLatched,
  kLimboMoves,
  kLeasedSkus,
  kLeaseAge,
  kLimboUnits,
};

inline constexpr std::string_view kFleetRefusalsName = "stockade_inventory_fleet_refusals_total";
inline constexpr std::string_view kFleetRefusalsHelp =
    "Requests that were refused as sold out or all held, by the source of the answer: a lease, without a query; the "
    "ledger, by a query.";

inline constexpr MetricDef kFleetMetricDefs[] = {
    {MetricType::kCounter, kFleetRefusalsName, kFleetRefusalsHelp, "by", "lease"},
    {MetricType::kCounter, kFleetRefusalsName, kFleetRefusalsHelp, "by", "ledger"},
    {MetricType::kCounter, "stockade_inventory_fleet_latches_total",
     "Times that this process found a SKU without units and latched it, after which all processes refuse by leases."},
    {MetricType::kCounter, "stockade_inventory_fleet_limbo_moves_total",
     "Times that this process put the units that had come back to a latched SKU on sale again."},
    {MetricType::kGauge, "stockade_inventory_fleet_leased_skus", "SKUs that this process may refuse by a lease."},
    {MetricType::kGauge, "stockade_inventory_fleet_lease_age_seconds",
     "Age of the oldest lease in use, counted from when its read was sent; 0 without leases."},
    {MetricType::kGauge, "stockade_inventory_fleet_limbo_units",
     "Units that have come back to latched SKUs and wait until all leases have ended, as this process last read them."},
};
static_assert(std::size(kFleetMetricDefs) == kLimboUnits + 1);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_METRICS_H_
