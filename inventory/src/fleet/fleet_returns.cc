// How a fleet takes units back that were sold.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fleet_core.h"
#include "fleet_plan.h"
#include "fleet_rules.h"
#include "fleet_sql.h"
#include "request_fingerprint.h"

namespace stockade::inventory_internal {

void FleetCore::Return(OrderCall& asker, Done done) {
  if (absl::Status valid = shared_.checks.CheckReturn(asker); !valid.ok()) return done(std::move(valid));
  struct Returning {
    FleetReturnCall call;
    FleetLatches limbo = {};
  };
  const FleetKeys& keys = shared_.ledger.keys;
  const auto returning = std::make_shared<Returning>();
  FleetReturnCall& call = returning->call;
  call.id = asker.id;
  call.kind = asker.kind == LedgerRecord::Kind::kWriteOff ? ChangeKind::kWriteOff : ChangeKind::kReturn;
  call.request_id = *asker.request_id;
  call.request = keys.RequestHash(call.request_id);
  for (const RequestLine& line : asker.lines) {
    call.lines.push_back({.sku = std::string(line.sku), .quantity = line.quantity});
    call.skus.push_back(keys.SkuId(line.sku));
  }
  AskUnlessDue(
      [this, &asker, returning](FleetLane& lane, OrderId& due) {
        returning->limbo.clear();
        return ReturnOnce(lane, asker, returning->call, due, returning->limbo);
      },
      shared_.clock.Now(), /*reads=*/false,
      [this, returning, done = std::move(done)](absl::Status returned) mutable {
        if (!returned.ok()) return done(std::move(returned));
        AnswerOnceMoved(std::move(returning->limbo), std::move(done));
      });
}

FleetCore::Stepped FleetCore::ReturnOnce(FleetLane& lane, OrderCall& asker, const FleetReturnCall& call, OrderId& due,
                                         FleetLatches& limbo) {
  const RequestChecks& checks = shared_.checks;
  FleetRequestRow used;
  if (!LookUpRequest(lane, call.request_id, call.request, used)) return std::nullopt;
  if (used.is_forgotten) return checks.Forgotten(call.request_id);
  if (used.is_change) return ReturnAgain(lane, asker, call, used.order, limbo);
  const OrderId id = used.order != 0 ? used.order : call.id;
  FleetOrderRows orders;
  int64_t now = 0;
  if (!ReadOrderRows(lane, {{id}}, orders, now)) return std::nullopt;
  const auto found = orders.find(id);
  if (used.order != 0) {
    if (found == orders.end()) return checks.Forgotten(call.request_id);
    return checks.Mismatch(call.request_id, RequestChecks::kCallKind);
  }
  if (found == orders.end() || found->second.kind == OrderKind::kRestock) return checks.NoSuchOrder(call.id);
  FleetOrderRow& order = found->second;
  if (order.lines.size() > kMaxBasketLines) order.damage = Concat(order.lines.size(), " lines");
  if (order.damage.empty() && order.state == OrderState::kHeld && order.at <= now) {
    due = id;
    return absl::OkStatus();
  }
  FleetReturnPlanner planner(call, checks);
  if (absl::Status can = planner.Decide(std::move(order)); !can.ok()) return can;
  FleetSkuRows skus;
  if (!shared_.ReadSkus(lane, TheseSkus(planner.Skus()), skus)) return std::nullopt;
  if (absl::Status can = planner.DecideSkus(std::move(skus)); !can.ok()) return can;
  asker.Make(planner.Returned());
  Stepped returned = RunPacket(lane, planner.Packet(lane.index()));
  if (!returned.has_value() || !returned->ok()) return returned;
  shared_.metrics.Add(kReturns);
  limbo = planner.Limbo();
  for (const auto& [sku, latch] : limbo) shared_.NoteDeposit(sku, latch);
  return returned;
}

FleetCore::Stepped FleetCore::ReturnAgain(FleetLane& lane, OrderCall& asker, const FleetReturnCall& call, OrderId order,
                                          FleetLatches& limbo) {
  const RequestChecks& checks = shared_.checks;
  const auto differs = [&](std::string_view what) { return checks.Mismatch(call.request_id, what); };
  if (order != call.id) return differs("order");
  FleetChange change;
  if (!ReadChange(lane, order, call.request, change)) return std::nullopt;
  if (change.empty()) return checks.Forgotten(call.request_id);  // Since its id was read.
  std::map<uint64_t, int64_t> wanted;
  for (size_t i = 0; i < call.lines.size(); ++i) wanted[call.skus[i]] = call.lines[i].quantity;
  std::map<uint64_t, int64_t> units;
  std::vector<uint64_t> ids;
  for (const auto& [kind, of_all, sku, quantity, to_stock] : change) {
    if (quantity < 1 || quantity > kMaxUnits) {
      return CheckWhole(checks, FleetOrderRow{.id = order, .damage = Concat(quantity, " units that came back")});
    }
    if (kind != static_cast<int64_t>(call.kind)) return differs("disposition");
    if (of_all != call.lines.empty()) return differs("set of lines");
    units[sku] = quantity;
    ids.push_back(sku);
  }
  if (!call.lines.empty() && units != wanted) return differs("set of lines");
  // Until its units are for sale, other processes may say that the SKU is sold out. An epoch that has begun since may
  // make it wait for longer.
  FleetSkuRows skus;
  if (!shared_.ReadSkus(lane, TheseSkus(ids), skus)) return std::nullopt;
  std::vector<ReturnedLine> lines;
  lines.reserve(change.size());
  for (const auto& [kind, of_all, sku, quantity, to_stock] : change) {
    const FleetSkuRow& row = skus[sku];
    lines.push_back({.sku = row.name, .quantity = quantity, .to_stock = to_stock});
    if (to_stock && row.latch.mode == FleetMode::kDraining) limbo[sku] = row.latch;
  }
  std::ranges::sort(lines, {}, &ReturnedLine::sku);
  asker.Make(std::move(lines));
  shared_.metrics.Add(kRepeats);
  return absl::OkStatus();
}

void FleetCore::AnswerOnceMoved(FleetLatches limbo, Done done) {
  if (limbo.empty() || !FleetRules::AnswersOnceMoved()) return done(absl::OkStatus());
  const auto [sku, latch] = *limbo.begin();
  limbo.erase(limbo.begin());
  shared_.sold_out.NotifyMoved({.sku = sku, .epoch = latch.epoch},
                               shared_.clock.Now() + 2 * FleetSoldOut::WaitOf(latch) + shared_.options.patience,
                               [this, limbo = std::move(limbo), done = std::move(done)]() mutable {
                                 AnswerOnceMoved(std::move(limbo), std::move(done));
                               });
}

}  // namespace stockade::inventory_internal
