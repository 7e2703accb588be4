#include "fleet_shared.h"

#include <utility>

#include "fleet_pause.h"
#include "fleet_sql.h"

namespace stockade::inventory_internal {
namespace {

// The URL of a node, as Redacted() writes it, without its user.
std::string NodeLabel(std::string_view name) {
  std::string label(name);
  const size_t user = label.find("://") + 3;
  if (const size_t end = label.find('@'); end != label.npos) label.erase(user, end + 1 - user);
  return label;
}

}  // namespace

FleetShared::FleetShared(FleetInventoryOptions of, FleetLedger to, std::unique_ptr<FleetDispenser> nodes)
    : sold_out(*of.clock, static_cast<size_t>(of.max_known_ids)),
      options(std::move(of)),
      ledger(std::move(to)),
      dispenser(std::move(nodes)),
      checks(options.name),
      clock(*options.clock),
      queues(options, checks),
      stock(options),
      metrics(options.metrics, InventoryMetricDefs(), {{"inventory", options.name}}),
      fleet_metrics(options.metrics, kFleetMetricDefs, {{"inventory", options.name}}) {
  fleet_metrics.AddGauge(kLeasedSkus, [this] { return static_cast<double>(sold_out.Read().leased_skus); });
  fleet_metrics.AddGauge(kLeaseAge, [this] { return absl::ToDoubleSeconds(sold_out.Read().oldest_lease); });
  fleet_metrics.AddGauge(kLimboUnits, [this] { return static_cast<double>(sold_out.Read().limbo_units); });
  fleet_metrics.AddGauge(kOverdue, [this] { return stock.OverdueSeconds(); });
  for (size_t node = 0; dispenser != nullptr && node < dispenser->size(); ++node) {
    node_metrics.push_back(std::make_unique<ComponentMetrics>(
        options.metrics, kFleetNodeMetricDefs,
        MetricLabels{{"inventory", options.name}, {"node", NodeLabel(dispenser->name(node))}}));
    node_metrics.back()->AddGauge(0, [this, node] { return dispenser->away(node) ? 1.0 : 0.0; });
  }
}

bool FleetShared::ReadSkus(FleetLane& lane, std::string_view which, FleetSkuRows& rows) {
  const Instant sent = clock.Now();
  if (!ReadSkuRows(lane, which, rows)) return false;
  NoteLatches(rows, sent);
  return true;
}

void FleetShared::NoteLatches(const FleetSkuRows& rows, Instant sent) {
  Pause(FleetPause::kLeaseReplied);
  bool is_sooner = false;
  for (const auto& [id, row] : rows) {
    FleetLatch latch = row.removed ? FleetLatch{.epoch = row.latch.epoch} : row.latch;
    const bool asks = options.refusal_lease == absl::ZeroDuration();
    if (asks && latch.mode == FleetMode::kLatched) latch.lease = absl::ZeroDuration();
    is_sooner |= sold_out.Note(id, latch, row.unsold(), row.per_buyer_limit != 0, sent);
  }
  if (is_sooner) queues.WakeUp();
}

void FleetShared::NoteDeposit(uint64_t sku, const FleetLatch& latch) {
  if (sold_out.NoteLimbo(sku, latch)) queues.WakeUp();
}

}  // namespace stockade::inventory_internal
