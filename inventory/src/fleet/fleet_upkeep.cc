// What lanes do without being asked: orders that are due expire, and those that ended long ago are forgotten.

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "fleet_core.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using base_internal::Concat;
using mysql_internal::MySqlInto;
using mysql_internal::MySqlReply;

// Orders that Upkeep() ends or forgets in one transaction.
constexpr int kUpkeepOrders = 256;
// Between two times.
constexpr absl::Duration kUpkeepInterval = absl::Seconds(1);
// The process that does the upkeep keeps it for so long without a sign of life; in the database's time.
constexpr int64_t kJanitorUs = 3'000'000;

// Orders whose time came longer ago than this are looked for once in this time.
constexpr int64_t kSweepUs = 60'000'000;

}  // namespace

absl::Duration FleetCore::Upkeep(Lane& lane) {
  if (absl::Status ready = lane.writer.Prepare(); !ready.ok()) {
    NoteHealth(ready);
    return kUpkeepInterval;
  }
  // One process does it for all, as long as it lives. A clock that was set back ends that, too.
  const std::string me = Concat(lane.writer.nonce());
  int64_t now = 0;
  const MySqlReply reply =
      lane.writer.Read(Concat("UPDATE ", ledger_.tables.fleet, " SET janitor=", me, ",janitor_until=", kFleetNow, "+",
                              kJanitorUs, " WHERE one=1 AND (janitor=", me, " OR janitor_until<", kFleetNow,
                              " OR janitor_until>", kFleetNow, "+", 2 * kJanitorUs, ");SELECT ", kFleetNow),
                       MySqlInto(now));
  NoteHealth(reply.status);  // Processes without calls have no other sign of it.
  if (!reply.status.ok() || reply.rows_matched.front() != 1) return kUpkeepInterval;
  now = FleetClamp(now);

  // Entries of ended orders stay in the index for a while. Only now and then it is read from its beginning.
  const bool whole = now < lane.swept_at || now - lane.swept_at > kSweepUs;
  const int64_t from = whole ? 0 : lane.swept_at - kSweepUs;
  std::vector<std::tuple<OrderId, int64_t>> due;
  const MySqlReply read =
      lane.writer.Read(Concat("SELECT order_id,at FROM ", ledger_.tables.orders,
                              " FORCE INDEX (upkeep) WHERE state=0 AND at>=", std::max(from, lane.due_read.first),
                              " AND (at>", lane.due_read.first, " OR order_id>", lane.due_read.second,
                              ") ORDER BY at,order_id LIMIT ", kUpkeepOrders),
                       MySqlInto(due));
  if (!read.status.ok()) return kUpkeepInterval;
  FleetEnds expiring;
  int64_t next = now + absl::ToInt64Microseconds(kUpkeepInterval);
  for (const auto& [id, at] : due) {
    if (at > now) {
      next = std::min(next, at);
      break;
    }
    auto call = std::make_unique<FleetEndCall>();
    call->start = clock_.Now();
    call->id = id;
    call->to = OrderState::kExpired;
    call->max_surprises = FleetCall::kSurprisesInCompany + 1;  // It is due in the next round, too.
    call->done = [](const absl::Status&) {};
    lane.due_read = {at, id};
    expiring.push_back(std::move(call));
  }
  // Units in limbo whose process has ended are moved by this one.
  SkuRows draining;
  if (!ReadSkus(lane.writer, "s.mode=2", draining)) return kUpkeepInterval;
  bool is_more = expiring.size() == kUpkeepOrders;
  if (!expiring.empty() && !ServeEnds(lane, std::move(expiring))) return kUpkeepInterval;
  if (options_.retention < absl::InfiniteDuration() &&
      !Forget(lane, from, now - absl::ToInt64Microseconds(options_.retention), is_more)) {
    return kUpkeepInterval;
  }
  if (is_more) return absl::ZeroDuration();
  lane.due_read = {};
  if (whole) lane.swept_at = now;
  return absl::Microseconds(std::max<int64_t>(next - now, 1'000));
}

bool FleetCore::Forget(Lane& lane, int64_t from, int64_t before, bool& is_more) {
  // Damaged orders, and those of a SKU whose row is missing, stay as they are: their units cannot be counted as
  // forgotten. COUNT(*), because a server may turn EXISTS into a join and begin with another table.
  const std::string units = Concat("quantity BETWEEN 1 AND ", kMaxUnits);
  const std::string of_skus =
      Concat(" AND kind BETWEEN 0 AND 3 AND IF(sku_id=0,(SELECT COUNT(*) FROM ", ledger_.tables.order_lines,
             " l WHERE l.order_id=o.order_id)>0,", units, " AND (SELECT COUNT(*) FROM ", ledger_.tables.skus,
             " s WHERE s.sku_id=o.sku_id)=1) AND (SELECT COUNT(*) FROM ", ledger_.tables.order_lines, " l LEFT JOIN ",
             ledger_.tables.skus, " s ON s.sku_id=l.sku_id WHERE l.order_id=o.order_id AND (s.sku_id IS NULL OR NOT l.",
             units, "))=0");
  const auto of_state = [&](OrderState state) {
    return Concat("(SELECT order_id FROM ", ledger_.tables.orders,
                  " o FORCE INDEX (upkeep) WHERE state=", static_cast<int>(state),
                  " AND at>=", std::min(from, before - kSweepUs), " AND at<", before, of_skus, " ORDER BY at LIMIT ",
                  kUpkeepOrders, ")");
  };
  OrderRows orders;
  int64_t now = 0;
  if (!ReadOrders(lane.writer,
                  Concat("o.order_id IN (SELECT order_id FROM (", of_state(OrderState::kSold), " UNION ALL ",
                         of_state(OrderState::kCancelled), " UNION ALL ", of_state(OrderState::kExpired), ") old)"),
                  orders, now)) {
    return false;
  }
  if (orders.empty()) return true;
  std::vector<OrderId> ids;
  std::map<uint64_t, int64_t> sold;
  for (const auto& [id, order] : orders) {
    if (!order.damage.empty()) continue;
    ids.push_back(id);
    if (order.state != OrderState::kSold || order.kind == OrderKind::kRestock) continue;
    for (const auto& [sku, quantity] : order.lines) sold[sku] = FleetSum(sold[sku], quantity);
  }
  if (ids.empty()) return true;
  FleetPacket packet;
  for (const auto& [sku, quantity] : sold) {
    packet.AddGuarded(
        Concat("UPDATE ", ledger_.tables.skus, " SET sold_forgotten=sold_forgotten+", quantity, " WHERE sku_id=", sku),
        1, FleetPacket::kAnyTag);
  }
  const std::string in_ids = Concat(" WHERE order_id IN (", absl::StrJoin(ids, ","), ")");
  packet.AddGuarded(Concat("DELETE FROM ", ledger_.tables.orders, in_ids, " AND state<>0"),
                    static_cast<int64_t>(ids.size()), FleetPacket::kAnyTag);
  packet.Add(Concat("DELETE FROM ", ledger_.tables.order_lines, in_ids), FleetPacket::kAnyTag);
  // Another outcome than kDone: they are found again the next time.
  const FleetOutcome outcome = RunUntilKnown(lane.writer, packet);
  is_more |= outcome.kind == FleetOutcome::Kind::kDone && orders.size() >= kUpkeepOrders;
  return outcome.kind != FleetOutcome::Kind::kAway;
}

}  // namespace stockade::inventory_internal
