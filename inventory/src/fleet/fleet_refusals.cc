// How units come back to SKUs that are sold out.

#include <utility>

#include "fleet_pause.h"
#include "fleet_rules.h"
#include "fleet_sql.h"
#include "fleet_workers.h"
#include "stockade/base/crash_point.h"

namespace stockade::inventory_internal {

#ifdef STOCKADE_CRASH_POINTS
std::atomic<void (*)(FleetPause)> fleet_pause{nullptr};
#endif

namespace {

// Orders whose request ids one query reads.
constexpr size_t kIdsAtOnce = 10'000;
// SKUs that one look latches: a transaction each, for which calls wait. Later looks latch the others.
constexpr int kMostLatches = 16;

}  // namespace

void FleetLatcher::LatchEmpty(const FleetSkuRows& skus, const absl::flat_hash_set<uint64_t>& short_skus) {
  if (shared_.options.refusal_lease == absl::ZeroDuration()) return;
  int latches = 0;
  for (const uint64_t id : short_skus) {
    const std::optional<FleetPacket> packet = LatchPacket(id, skus.at(id), shared_.options.refusal_lease);
    if (!packet.has_value()) continue;
    if (++latches > kMostLatches) return;
    IdsLoad early;
    while (!FleetRules::IdsAfterLatch() && !early.is_done() && LoadIds(id, early)) {
    }
    CrashPoint("fleet: before the latch");
    const FleetOutcome outcome = shared_.queues.RunUntilKnown(lane_, *packet);
    if (outcome.is_away()) return;
    if (outcome.kind != FleetOutcome::Kind::kDone) continue;
    shared_.fleet_metrics.Add(kSkusLatched);
    FleetSkuRows rows;
    (void)shared_.ReadSkus(lane_, OneSku(id), rows);
    if (early.is_done() && !rows.empty()) shared_.sold_out.NoteIds({id, rows[id].latch.epoch}, std::move(early.ids));
  }
}

void FleetLatcher::ServeSoldOut() {
  shared_.sold_out.EndWaits();
  const FleetSoldOut::Work work = shared_.sold_out.TakeWork();
  for (const FleetSoldOut::Move& move : work.moves) {
    if (!MoveLimbo(move)) return;
  }
  FleetSkuRows renewed;
  if (!work.renewals.empty() && !shared_.ReadSkus(lane_, TheseSkus(work.renewals), renewed)) return;
  for (const FleetSoldOut::Move& of : work.unknown_ids) {
    IdsLoad& load = loads_[of.sku];
    if (load.epoch != of.epoch) load = {.epoch = of.epoch};
  }
  // At most one SKU is read in part, so that what is remembered stays within its limit. Of that one a page, because
  // moves and calls do not wait for SKUs with many orders.
  for (auto entry = loads_.begin(); entry != loads_.end();) {
    auto& [sku, load] = *entry;
    const FleetSoldOut::Move of{.sku = sku, .epoch = load.epoch};
    if (shared_.sold_out.WantsIds(of)) {
      if (!LoadIds(sku, load)) return;
      if (!load.is_done()) break;
      shared_.sold_out.NoteIds(of, std::move(load.ids));
    }
    loads_.erase(entry++);
  }
  if (!loads_.empty()) shared_.sold_out.ComeAgain();
}

bool FleetLatcher::MoveLimbo(const FleetSoldOut::Move& move) {
  Pause(FleetPause::kBeforeMove);
  CrashPoint("fleet: before limbo is moved");
  const FleetOutcome outcome = shared_.queues.RunUntilKnown(lane_, MovePacket(move));
  CrashPoint("fleet: after limbo was moved");
  if (outcome.kind == FleetOutcome::Kind::kDone) shared_.fleet_metrics.Add(kLimboMoves);
  if (outcome.kind == FleetOutcome::Kind::kDone || outcome.kind == FleetOutcome::Kind::kSurprise) {
    shared_.sold_out.NoteMoved(move);
  }
  return !outcome.is_away();  // A move that was not noted comes again.
}

bool FleetLatcher::LoadIds(uint64_t sku, IdsLoad& load) {
  if (!load.in_baskets && load.last == 0) Pause(FleetPause::kIdsLoading);
  FleetTakers takers;
  if (!ReadTakers(lane_, sku, load.in_baskets, load.last, kIdsAtOnce, takers)) return false;
  for (const auto& [order, request] : takers) {
    load.last = order;
    load.ids->insert(FleetKeys::PrintOf(request));
  }
  if (load.ids->size() > shared_.sold_out.ids_left()) {
    load.ids.reset();
  } else if (takers.size() < kIdsAtOnce) {
    load.read_all = load.in_baskets;
    load.in_baskets = true;
    load.last = 0;
  }
  if (load.is_done()) Pause(FleetPause::kIdsLoaded);
  return true;
}

}  // namespace stockade::inventory_internal
