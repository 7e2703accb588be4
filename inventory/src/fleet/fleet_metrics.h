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
  kNodeGave,
  kNodeWasEmpty,
  kNodeWasAway,
  kNodeFills,
  kNodeUnpaid,
  kLeasedSkus,
  kLeaseAge,
  kLimboUnits,
  kOverdue,
};

inline constexpr std::string_view kFleetRefusalsName = "stockade_inventory_fleet_refusals_total";
inline constexpr std::string_view kFleetRefusalsHelp =
    "Requests that were refused as sold out or all held, by the source of the answer: a lease, without a query; the "
    "ledger, by a query.";

inline constexpr std::string_view kNodeTakesName = "stockade_inventory_fleet_node_takes_total";
inline constexpr std::string_view kNodeTakesHelp =
    "Times that a Redis node was asked for units of a SKU, by its answer: given; empty, it has too few; away, it did "
    "not answer, or was not asked because it does not answer.";

inline constexpr MetricDef kFleetMetricDefs[] = {
    {MetricType::kCounter, kFleetRefusalsName, kFleetRefusalsHelp, "by", "lease"},
    {MetricType::kCounter, kFleetRefusalsName, kFleetRefusalsHelp, "by", "ledger"},
    {MetricType::kCounter, "stockade_inventory_fleet_latches_total",
     "Times that this process found a SKU without units and latched it, after which all processes refuse by leases."},
    {MetricType::kCounter, "stockade_inventory_fleet_limbo_moves_total",
     "Times that this process put the units that had come back to a latched SKU on sale again."},
    {MetricType::kCounter, kNodeTakesName, kNodeTakesHelp, "result", "given"},
    {MetricType::kCounter, kNodeTakesName, kNodeTakesHelp, "result", "empty"},
    {MetricType::kCounter, kNodeTakesName, kNodeTakesHelp, "result", "away"},
    {MetricType::kCounter, "stockade_inventory_fleet_node_fills_total",
     "Times that this process moved units from the ledger's segments to the row of a Redis node."},
    {MetricType::kCounter, "stockade_inventory_fleet_node_unpaid_total",
     "Times that a Redis node gave units that its row in the ledger did not pay, because they were merged, or because "
     "the node is older than its row. The requests are tried again."},
    {MetricType::kGauge, "stockade_inventory_fleet_leased_skus", "SKUs that this process may refuse by a lease."},
    {MetricType::kGauge, "stockade_inventory_fleet_lease_age_seconds",
     "Age of the oldest lease in use, counted from when its read was sent; 0 without leases."},
    {MetricType::kGauge, "stockade_inventory_fleet_limbo_units",
     "Units that have come back to latched SKUs and wait until all leases have ended, as this process last read them."},
    {MetricType::kGauge, "stockade_inventory_fleet_overdue_seconds",
     "How long ago the oldest reservation was due that has not expired yet. Of the process that lets reservations "
     "expire; 0 in the others."},
};
// Of each Redis node.
inline constexpr MetricDef kFleetNodeMetricDefs[] = {
    {MetricType::kGauge, "stockade_inventory_fleet_nodes_away",
     "1 for a Redis node that does not answer this process. The ledger's segments sell in its place."},
};
static_assert(std::size(kFleetMetricDefs) == kOverdue + 1);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_METRICS_H_
