#include <algorithm>

#include "fleet_pause.h"
#include "fleet_sql.h"
#include "fleet_workers.h"
#include "stockade/base/crash_point.h"

namespace stockade::inventory_internal {
namespace {

// More units are moved to a node in several steps.
constexpr int64_t kMostFillInBatches = 16;
// After a packet, so that calls do not wait for more. The other SKUs follow after the next packets.
constexpr int kMostFills = 8;
// After the ledger had too few units to fill a node.
constexpr absl::Duration kEmptyPause = absl::Milliseconds(200);
// After a counter could not be used.
constexpr absl::Duration kUnusablePause = absl::Seconds(5);

}  // namespace

void FleetNodeClient::Ask(const std::set<uint64_t>& asks, FleetGrantBatch& trial) {
  const auto pay = [&](uint64_t sku, Share& share) {
    FleetGrantBatch::Payment& payment = trial.payments.at(sku);
    if (share.spare < payment.units()) return false;
    share.spare -= payment.units();
    payment.segment = shared_.dispenser->segment(node());
    payment.fence = share.generation;
    return true;
  };
  std::vector<FleetDispenser::Want> wants;
  const Instant now = shared_.clock.Now();
  for (const uint64_t sku : asks) {
    Share& share = shares_[sku];
    if (pay(sku, share) || now < share.ask_after) continue;
    wants.push_back(
        {.sku = sku, .least_generation = share.generation, .units = trial.payments.at(sku).units() - share.spare});
  }
  if (wants.empty()) return;
  const auto answer = shared_.dispenser->Take(node(), wants);
  CrashPoint("fleet: node was asked");
  if (!answer.has_value()) {
    shared_.fleet_metrics.Add(kNodeWasAway, wants.size());
    return;
  }
  for (size_t i = 0; i < wants.size(); ++i) {
    const uint64_t sku = wants[i].sku;
    const FleetDispenser::Got& got = (*answer)[i];
    Share& share = shares_[sku];
    if (!got.usable) {
      share.ask_after = now + kUnusablePause;
      continue;
    }
    share.End(got.generation - 1);
    share.spare += got.units;
    shared_.fleet_metrics.Add(got.units > 0 ? kNodeGave : kNodeWasEmpty);
    pay(sku, share);
    if (got.units == 0 || got.left < wants[i].units) filling_.insert(sku);
  }
}

void FleetNodeClient::NoteUnpaid(const FleetGrantBatch& trial, std::optional<uint64_t> sku) {
  for (const auto& [of, payment] : trial.payments) {
    if (!payment.fence.has_value()) continue;
    Share& share = shares_[of];
    if (of == sku) {
      // The row has another fence, or the node gave out more than the row has: then it does so again.
      share.End(*payment.fence);
      filling_.insert(of);
      shared_.fleet_metrics.Add(kNodeUnpaid);
    } else if (*payment.fence == share.generation) {
      share.spare += payment.units();
    }
  }
}

void FleetNodeClient::NoteRow(uint64_t sku, const FleetSkuRow& row) {
  if (row.removed) {
    shares_.erase(sku);
  } else if (shared_.dispenser != nullptr && !row.nodes.empty()) {
    const auto own = row.nodes.find(shared_.dispenser->segment(node()));
    if (own != row.nodes.end()) shares_[sku].End(own->second.fence - 1);
  }
}

void FleetNodeClient::NoteMerged(uint64_t sku) {
  if (const auto share = shares_.find(sku); share != shares_.end()) share->second.End(share->second.generation);
}

bool FleetNodeClient::Fill() {
  for (int fills = 0; fills < kMostFills && !filling_.empty(); ++fills) {
    const uint64_t sku = filling_.extract(filling_.begin()).value();
    if (!Fill(sku)) return false;
  }
  return true;
}

bool FleetNodeClient::Fill(uint64_t sku) {
  FleetSkuRows rows;
  if (!shared_.ReadSkus(lane_, OneSku(sku), rows)) return false;
  if (rows.empty()) return true;
  const FleetSkuRow& row = rows.begin()->second;
  if (row.removed || !row.has_nodes || row.latch.mode != FleetMode::kOpen || !CheckWhole(shared_.checks, row).ok()) {
    return true;
  }
  Share& share = shares_[sku];
  const auto fill = PlanFill(sku, row, lane_.index(), shared_.dispenser->size(), shared_.dispenser->segment(node()),
                             kMostFillInBatches * shared_.options.max_batch, share.generation);
  if (!fill.has_value()) {
    share.ask_after = shared_.clock.Now() + kEmptyPause;
    return true;
  }
  share.End(fill->after.fence - 1);
  const FleetOutcome outcome = shared_.queues.RunUntilKnown(lane_, {{*fill}});
  if (outcome.kind == FleetOutcome::Kind::kDone) {
    shared_.fleet_metrics.Add(kNodeFills);
    Pause(FleetPause::kBeforeFill);
    CrashPoint("fleet: before the fill");
    // The node is ahead of a ledger that was restored, or another fill was faster.
    if (!shared_.dispenser->Fill(node(), sku, fill->after.fence, fill->after.fills, fill->units)) {
      share.End(fill->after.fence);
    }
  }
  // Another outcome than these: another lane was faster, or it is tried again when a packet wants units.
  return !outcome.is_away();
}

}  // namespace stockade::inventory_internal
