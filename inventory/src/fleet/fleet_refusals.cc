// How requests for SKUs that are sold out are refused without the ledger, and how their units come back.

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "fleet_core.h"
#include "fleet_pause.h"
#include "fleet_rules.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"

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

std::optional<absl::Status> FleetCore::RefuseByLease(const std::string& request_id, const std::string& buyer,
                                                     std::span<const RequestLine> lines) {
  if (!sold_out_.HasLeases()) return std::nullopt;
  const uint64_t print = ledger_.keys.RequestPrint(request_id);
  for (const RequestLine& line : lines) {
    const std::optional<int64_t> unsold = sold_out_.Refuses(ledger_.keys.SkuId(line.sku), print, !buyer.empty());
    if (!unsold.has_value()) continue;
    fleet_metrics_.Add(kRefusedByLease);
    return checks_.Short(line, *unsold);
  }
  return std::nullopt;
}

void FleetCore::NoteLatches(const FleetSkuRows& rows, Instant sent) {
  Pause(FleetPause::kLeaseReplied);
  bool is_sooner = false;
  for (const auto& [id, row] : rows) {
    FleetLatch latch = row.removed ? FleetLatch{.epoch = row.latch.epoch} : row.latch;
    const bool asks = options_.refusal_lease == absl::ZeroDuration();
    if (asks && latch.mode == FleetMode::kLatched) latch.lease = absl::ZeroDuration();
    is_sooner |= sold_out_.Note(id, latch, row.unsold(), row.per_buyer_limit != 0, sent);
  }
  if (!is_sooner) return;
  // A lane that has read NextWork() is waiting already.
  const MutexLock lock(mutex_);
  WakeUp();
}

void FleetCore::NoteDeposit(uint64_t sku, const FleetLatch& latch) {
  if (!sold_out_.NoteLimbo(sku, latch)) return;
  const MutexLock lock(mutex_);
  WakeUp();
}

void FleetCore::LatchEmpty(Lane& lane, const FleetSkuRows& skus, const absl::flat_hash_set<uint64_t>& short_skus) {
  if (options_.refusal_lease == absl::ZeroDuration()) return;
  int latches = 0;
  for (const uint64_t id : short_skus) {
    const FleetSkuRow& row = skus.at(id);
    const bool is_open = row.latch.mode == FleetMode::kOpen ||
                         (row.latch.mode == FleetMode::kDraining && !FleetRules::LatchesOpenOnly());
    if (!is_open || row.units != 0) continue;
    if (++latches > kMostLatches) return;
    // The SKU's row first, so that nothing is deposited meanwhile, and no segment is added. The epoch is a time, so
    // that none comes again after a restore or a failover that has lost a latch.
    FleetPacket packet;
    packet.AddGuarded(Concat("UPDATE ", ledger_.tables.skus, " SET mode=1,epoch=GREATEST(epoch+1,@now),lease_us=",
                             absl::ToInt64Microseconds(options_.refusal_lease), " WHERE sku_id=", id,
                             " AND removed=0 AND ", FleetRules::LatchesOpenOnly() ? "mode=0" : "mode<>1"),
                      1);
    packet.Add(Concat("SELECT SUM(units) INTO @units FROM ", ledger_.tables.stock, kByKey, " WHERE sku_id=", id,
                      " FOR UPDATE"));
    packet.AddCondition("COALESCE(@units,1)=0");
    packet.Add(Concat("UPDATE ", ledger_.tables.stock, kByKey, " SET latched=1 WHERE sku_id=", id));
    IdsLoad early;
    while (!FleetRules::IdsAfterLatch() && !early.is_done() && LoadIds(lane.writer, id, early)) {
    }
    CrashPoint("fleet: before the latch");
    const FleetOutcome outcome = RunUntilKnown(lane.writer, packet);
    if (outcome.kind == FleetOutcome::Kind::kAway || outcome.kind == FleetOutcome::Kind::kUnknown) return;
    FleetSkuRows rows;
    if (outcome.kind != FleetOutcome::Kind::kDone) continue;
    fleet_metrics_.Add(kSkusLatched);
    (void)ReadSkus(lane.writer, Concat("s.sku_id=", id), rows);
    if (early.is_done() && !rows.empty()) sold_out_.NoteIds({id, rows[id].latch.epoch}, std::move(early.ids));
  }
}

void FleetCore::ServeSoldOut(Lane& lane) {
  const FleetSoldOut::Work work = sold_out_.TakeWork();
  for (const FleetSoldOut::Move& move : work.moves) {
    if (!MoveLimbo(lane.writer, move)) return;
  }
  if (!work.renewals.empty()) {
    FleetSkuRows rows;
    if (!ReadSkus(lane.writer, Concat("s.sku_id IN (", absl::StrJoin(work.renewals, ","), ")"), rows)) return;
  }
  for (const FleetSoldOut::Move& of : work.unknown_ids) {
    IdsLoad& load = lane.loads[of.sku];
    if (load.epoch != of.epoch) load = {.epoch = of.epoch};
  }
  // At most one SKU is read in part, so that what is remembered stays within its limit. Of that one a page, because
  // moves and calls do not wait for SKUs with many orders.
  for (auto entry = lane.loads.begin(); entry != lane.loads.end();) {
    auto& [sku, load] = *entry;
    const FleetSoldOut::Move of{.sku = sku, .epoch = load.epoch};
    if (sold_out_.WantsIds(of)) {
      if (!LoadIds(lane.writer, sku, load)) return;
      if (!load.is_done()) break;
      sold_out_.NoteIds(of, std::move(load.ids));
    }
    lane.loads.erase(entry++);
  }
  if (!lane.loads.empty()) sold_out_.ComeAgain();
}

bool FleetCore::MoveLimbo(FleetLane& writer, const FleetSoldOut::Move& move) {
  Pause(FleetPause::kBeforeMove);
  CrashPoint("fleet: before limbo is moved");
  // Only in the epoch in which it was waited for.
  const std::string where = Concat(" WHERE sku_id=", move.sku, " AND mode=2 AND removed=0",
                                   FleetRules::MovesInItsEpoch() ? Concat(" AND epoch=", move.epoch) : std::string());
  FleetPacket packet;
  packet.Add("SET @limbo=NULL");
  packet.Add(Concat("SELECT limbo,segments INTO @limbo,@segments FROM ", ledger_.tables.skus, where, " FOR UPDATE"));
  packet.AddCondition("@limbo IS NOT NULL");
  packet.Add(
      Concat("UPDATE ", ledger_.tables.skus, " SET limbo=0,mode=0 WHERE sku_id=", move.sku, " AND @limbo IS NOT NULL"));
  packet.Add(Concat("UPDATE ", ledger_.tables.stock, kByKey, " SET latched=0,units=units+",
                    Share("@limbo", "@segments", "segment"), " WHERE sku_id=", move.sku, kOfLedger,
                    " AND @limbo IS NOT NULL"));
  packet.AddCondition("ROW_COUNT()=@segments");
  packet.Add(Concat("UPDATE ", ledger_.tables.stock, kByKey, " SET latched=0 WHERE sku_id=", move.sku, kOfNodes));
  const FleetOutcome outcome = RunUntilKnown(writer, packet);
  CrashPoint("fleet: after limbo was moved");
  switch (outcome.kind) {
    case FleetOutcome::Kind::kDone: fleet_metrics_.Add(kLimboMoves); [[fallthrough]];
    case FleetOutcome::Kind::kSurprise: sold_out_.NoteMoved(move); return true;
    case FleetOutcome::Kind::kAgain: return true;  // Comes again.
    case FleetOutcome::Kind::kAway:
    case FleetOutcome::Kind::kUnknown: return false;
  }
  return false;
}

bool FleetCore::LoadIds(FleetLane& writer, uint64_t sku, IdsLoad& load) {
  if (!load.in_baskets && load.last == 0) Pause(FleetPause::kIdsLoading);
  const std::string page =
      load.in_baskets ? Concat("SELECT l.order_id,o.request FROM ", ledger_.tables.order_lines,
                               " l FORCE INDEX (by_sku) STRAIGHT_JOIN ", ledger_.tables.orders,
                               " o ON o.order_id=l.order_id WHERE l.sku_id=", sku, " AND l.order_id>", load.last)
                      : Concat("SELECT order_id,request FROM ", ledger_.tables.orders,
                               " FORCE INDEX (by_sku) WHERE sku_id=", sku, " AND order_id>", load.last);
  std::vector<std::tuple<OrderId, FleetHash>> rows;
  const MySqlReply reply = writer.Read(Concat(page, " ORDER BY order_id LIMIT ", kIdsAtOnce), MySqlInto(rows));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  for (const auto& [order, request] : rows) {
    load.last = order;
    load.ids->insert(FleetKeys::PrintOf(request));
  }
  if (load.ids->size() > sold_out_.ids_left()) {
    load.ids.reset();
  } else if (rows.size() < kIdsAtOnce) {
    load.read_all = load.in_baskets;
    load.in_baskets = true;
    load.last = 0;
  }
  if (load.is_done()) Pause(FleetPause::kIdsLoaded);
  return true;
}

}  // namespace stockade::inventory_internal
