// Segments of a SKU at Redis nodes: a node gives units to lanes, and the node's row of stock pays.
//
// A transaction moves units to the node's row before the node has them to give. If the node gives out more than the row
// has, or under a generation that is over, the payment fails and the requests are tried again. If it gives out less,
// for whatever reason, the rest stays in the row until a packet finds the ledger's segments too small: that packet
// merges all rows of the SKU into segment 0, and raises the fences of the nodes' rows. A refusal counts the units of
// all rows. tests/models/fleet_redis.pml is the model.

#include <algorithm>
#include <numeric>

#include "fleet_core.h"
#include "fleet_pause.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Fewer units are not moved to a node: the ledger alone sells the last ones. More are moved in several steps.
constexpr int64_t kLeastFill = 16;
constexpr int64_t kMostFillInBatches = 16;
// After a packet, so that calls do not wait for more. The other SKUs follow after the next packets.
constexpr int kMostFills = 8;
// After the ledger had too few units to fill a node.
constexpr absl::Duration kEmptyPause = absl::Milliseconds(200);
// After a counter could not be used.
constexpr absl::Duration kUnusablePause = absl::Seconds(5);

}  // namespace

FleetCore::NodePayments FleetCore::AskNode(Lane& lane, const std::map<uint64_t, int64_t>& units) {
  NodePayments payments;
  const auto pay = [&](uint64_t sku, NodeShare& share) {
    const int64_t wanted = units.at(sku);
    if (share.spare < wanted) return false;
    share.spare -= wanted;
    payments[sku] = {.generation = share.generation, .units = wanted};
    return true;
  };
  std::vector<FleetDispenser::Want> wants;
  const Instant now = clock_.Now();
  for (const auto& [sku, wanted] : units) {
    NodeShare& share = lane.shares[sku];
    if (pay(sku, share) || now < share.ask_after) continue;
    wants.push_back({.sku = sku, .least_generation = share.generation, .units = wanted - share.spare});
  }
  if (wants.empty()) return payments;
  const auto answer = dispenser_->Take(NodeOf(lane), wants);
  CrashPoint("fleet: node was asked");
  if (!answer.has_value()) {
    fleet_metrics_.Add(kNodeWasAway, wants.size());
    return payments;
  }
  for (size_t i = 0; i < wants.size(); ++i) {
    const uint64_t sku = wants[i].sku;
    const FleetDispenser::Got& got = (*answer)[i];
    NodeShare& share = lane.shares[sku];
    if (!got.usable) {
      share.ask_after = now + kUnusablePause;
      continue;
    }
    share.End(got.generation - 1);
    share.spare += got.units;
    fleet_metrics_.Add(got.units > 0 ? kNodeGave : kNodeWasEmpty);
    pay(sku, share);
    if (got.units == 0 || got.left < wants[i].units) lane.filling.insert(sku);
  }
  return payments;
}

void FleetCore::NoteUnpaid(Lane& lane, const NodePayments& payments, uint64_t sku) {
  for (const auto& [of, payment] : payments) {
    NodeShare& share = lane.shares[of];
    if (of == sku) {
      // The row has another fence, or the node gave out more than the row has: then it does so again.
      share.End(payment.generation);
      lane.filling.insert(of);
      fleet_metrics_.Add(kNodeUnpaid);
    } else if (payment.generation == share.generation) {
      share.spare += payment.units;
    }
  }
}

bool FleetCore::FillNode(Lane& lane) {
  for (int fills = 0; fills < kMostFills && !lane.filling.empty(); ++fills) {
    const uint64_t sku = lane.filling.extract(lane.filling.begin()).value();
    if (!FillNode(lane, sku)) return false;
  }
  return true;
}

bool FleetCore::FillNode(Lane& lane, uint64_t sku) {
  FleetSkuRows rows;
  if (!ReadSkus(lane.writer, Concat("s.sku_id=", sku), rows)) return false;
  if (rows.empty()) return true;
  const FleetSkuRow& row = rows.begin()->second;
  if (row.removed || !row.has_nodes || row.latch.mode != FleetMode::kOpen || !CheckWhole(row).ok()) return true;
  NodeShare& share = lane.shares[sku];
  const size_t node = NodeOf(lane);
  const int32_t segment = dispenser_->segment(node);

  // Half of the units stays with the ledger, for lanes whose nodes are away.
  const auto own = static_cast<size_t>(lane.index) % row.segment_units.size();
  const size_t from = row.segment_units[own] / 2 >= kLeastFill ? own : 0;
  const int64_t in_ledger = std::accumulate(row.segment_units.begin(), row.segment_units.end(), int64_t{0});
  const int64_t units = std::min({in_ledger / (2 * static_cast<int64_t>(dispenser_->size())),
                                  row.segment_units[from] / 2, kMostFillInBatches * options_.max_batch});
  if (units < kLeastFill) {
    share.ask_after = clock_.Now() + kEmptyPause;
    return true;
  }

  const auto found = row.nodes.find(segment);
  const FleetNodeRow before = found == row.nodes.end() ? FleetNodeRow() : found->second;
  share.End(std::max<int64_t>(before.fence, 1) - 1);
  // A lane that has seen the end of the row's generation begins another one.
  const int64_t generation = share.generation;
  const int64_t fill = before.fills + 1;
  FleetPacket packet;
  packet.Add("SET @open=0");
  packet.Add(Concat("SELECT mode=0 AND removed=0 INTO @open FROM ", ledger_.tables.skus, " WHERE sku_id=", sku,
                    " LOCK IN SHARE MODE"));
  packet.AddCondition("@open=1");
  packet.AddGuarded(
      Concat("UPDATE ", ledger_.tables.stock, " SET units=units-", units, " WHERE sku_id=", sku, " AND segment=", from),
      1);
  if (found == row.nodes.end()) {
    packet.Add(Concat("INSERT INTO ", ledger_.tables.stock, " (sku_id,segment,units,held,sold,fence,fills) VALUES (",
                      sku, ",", segment, ",", units, ",0,0,", generation, ",", fill, ")"));
  } else {
    packet.AddGuarded(Concat("UPDATE ", ledger_.tables.stock, " SET units=units+", units, ",fence=", generation,
                             ",fills=", fill, " WHERE sku_id=", sku, " AND segment=", segment,
                             " AND fence=", before.fence, " AND fills=", before.fills),
                      1);
  }
  const FleetOutcome outcome = RunUntilKnown(lane.writer, packet);
  if (outcome.kind == FleetOutcome::Kind::kDone) {
    fleet_metrics_.Add(kNodeFills);
    Pause(FleetPause::kBeforeFill);
    CrashPoint("fleet: before the fill");
    // The node is ahead of a ledger that was restored, or another fill was faster.
    if (!dispenser_->Fill(node, sku, generation, fill, units)) share.End(generation);
  }
  // Another outcome than these: another lane was faster, or it is tried again when a packet wants units.
  return outcome.kind != FleetOutcome::Kind::kAway && outcome.kind != FleetOutcome::Kind::kUnknown;
}

}  // namespace stockade::inventory_internal
