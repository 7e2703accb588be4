// How orders end, once: they are committed, cancelled or expire.

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "fleet_core.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using base_internal::Concat;
using base_internal::MutexLock;
using mysql_internal::MySqlInto;
using mysql_internal::MySqlReply;

}  // namespace

bool FleetCore::ReadOrders(FleetLane& writer, std::string_view where, OrderRows& orders, int64_t& now) {
  std::vector<OrderColumns> rows;
  const MySqlReply reply = writer.Read(
      Concat("SELECT ", kOrderColumns, " FROM ", ledger_.tables.orders, " o LEFT JOIN ", ledger_.tables.order_lines,
             " l ON l.order_id=o.order_id WHERE ", where, ";SELECT ", kFleetNow),
      MySqlInto(rows, now));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  for (const OrderColumns& row : rows) orders[std::get<0>(row)].Add(row);
  now = FleetClamp(now);
  return true;
}

absl::Status FleetCore::CheckWholeAndLog(Lane& lane, uint64_t sku, const SkuRow& row) {
  absl::Status whole = CheckWhole(row);
  if (whole.ok()) {
    lane.damaged.erase(sku);
  } else if (lane.damaged.insert(sku).second) {
    base_internal::Log(LogSeverity::kError, Concat(whole.message()));
  }
  return whole;
}

bool FleetCore::ServeEnds(Lane& lane, FleetEnds calls) {
  std::map<OrderId, std::unique_ptr<FleetEndCall>> ending;
  FleetEnds later;  // Of the same orders.
  for (std::unique_ptr<FleetEndCall>& call : calls) {
    std::unique_ptr<FleetEndCall>& first = ending[call->id];
    (first == nullptr ? first : later.emplace_back()) = std::move(call);
  }
  PutBack(&Queues::ends, std::move(later));
  const auto all = [&] {
    FleetEnds again;
    for (auto& [id, call] : ending) again.push_back(std::move(call));
    return again;
  };

  std::vector<OrderId> ids;
  ids.reserve(ending.size());
  for (const auto& [id, call] : ending) ids.push_back(id);
  OrderRows orders;
  int64_t now = 0;
  SkuRows skus;
  const std::string in_ids = Concat("o.order_id IN (", absl::StrJoin(ids, ","), ")");
  if (!ReadOrders(lane.writer, in_ids, orders, now)) {
    PutBack(&Queues::ends, all());
    return false;
  }
  std::vector<uint64_t> sku_ids;
  std::map<OrderId, OrderState> ends;
  for (auto& [id, call] : ending) {
    const auto found = orders.find(id);
    if (found == orders.end() || found->second.kind == OrderKind::kRestock) {
      AnswerEnd(*call, std::nullopt);
      call.reset();
      continue;
    }
    const OrderRow& order = found->second;
    if (absl::Status whole = CheckWhole(order); !whole.ok()) {
      call->done(std::move(whole));
      call.reset();
      continue;
    }
    const bool due = order.at <= now;
    if (order.state != OrderState::kHeld || (call->to == OrderState::kExpired && !due)) {
      AnswerEnd(*call, order.state);
      call.reset();
      continue;
    }
    ends[id] = due ? OrderState::kExpired : call->to;
    for (const auto& [sku, quantity] : order.lines) sku_ids.push_back(sku);
  }
  std::erase_if(ending, [](const auto& entry) { return entry.second == nullptr; });
  if (ending.empty()) return true;
  if (!ReadSkus(lane.writer, Concat("s.sku_id IN (", absl::StrJoin(sku_ids, ","), ")"), skus)) {
    PutBack(&Queues::ends, all());
    return false;
  }

  std::erase_if(ending, [&](auto& entry) {
    for (const auto& [sku, quantity] : orders[entry.first].lines) {
      absl::Status whole = CheckWholeAndLog(lane, sku, skus[sku]);
      if (whole.ok()) continue;
      entry.second->done(std::move(whole));
      ends.erase(entry.first);
      return true;
    }
    return false;
  });
  if (ending.empty()) return true;

  struct Effect {
    int64_t sold = 0;
    int64_t back = 0;
    std::map<FleetHash, int64_t> buyers = {};
  };
  std::map<uint64_t, Effect> effects;
  std::map<OrderState, std::vector<OrderId>> by_state;
  std::vector<OrderId> ending_ids;
  for (const auto& [id, state] : ends) {
    by_state[state].push_back(id);
    ending_ids.push_back(id);
    const OrderRow& order = orders[id];
    for (const auto& [sku, quantity] : order.lines) {
      Effect& effect = effects[sku];
      if (state == OrderState::kSold) {
        effect.sold = FleetSum(effect.sold, quantity);
        continue;
      }
      effect.back = FleetSum(effect.back, quantity);
      if (skus[sku].per_buyer_limit != 0 && !skus[sku].removed) {
        int64_t& units = effect.buyers[order.buyer];
        units = FleetSum(units, quantity);
      }
    }
  }

  FleetPacket packet;
  for (const auto& [id, effect] : effects) {
    if (effect.back == 0) continue;
    if (skus[id].removed) {
      packet.AddGuarded(Concat("UPDATE ", ledger_.tables.skus, " SET granted=granted-", effect.back,
                               " WHERE sku_id=", id, " AND removed=1"),
                        1, FleetPacket::kAnyTag);
    } else if (DepositsToLimbo(skus[id].latch)) {
      packet.AddGuarded(Concat("UPDATE ", ledger_.tables.skus, " SET ", LimboSet(effect.back), " WHERE sku_id=", id,
                               " AND removed=0 AND ", IsStill(skus[id].latch)),
                        1, FleetPacket::kAnyTag);
    } else {
      packet.Add("SET @is_still=0", FleetPacket::kAnyTag);
      packet.Add(Concat("SELECT removed=0 AND ", IsStill(skus[id].latch), " INTO @is_still FROM ", ledger_.tables.skus,
                        " WHERE sku_id=", id, " LOCK IN SHARE MODE"),
                 FleetPacket::kAnyTag);
      packet.AddCondition("@is_still=1", FleetPacket::kAnyTag);
    }
  }
  // In one statement, so that its order is that of the keys.
  const auto in = [&](OrderState state) {
    const auto found = by_state.find(state);
    return found == by_state.end() ? std::string("FALSE")
                                   : Concat("order_id IN (", absl::StrJoin(found->second, ","), ")");
  };
  packet.AddGuarded(
      Concat("UPDATE ", ledger_.tables.orders, kByKey, " SET state=IF(", in(OrderState::kSold), ",1,IF(",
             in(OrderState::kCancelled), ",2,3)),at=@now WHERE order_id IN (", absl::StrJoin(ending_ids, ","),
             ") AND state=0 AND IF(", in(OrderState::kExpired), ",at<=@now,at>@now)"),
      static_cast<int64_t>(ending_ids.size()), FleetPacket::kAnyTag);
  std::string buyers;
  int64_t buyer_rows = 0;
  for (const auto& [id, effect] : effects) {
    for (const auto& [buyer, units] : effect.buyers) {
      buyers += Concat(buyer_rows++ == 0 ? "SELECT " : " UNION ALL SELECT ", id, " AS sku_id,", FleetHashLiteral(buyer),
                       " AS buyer,", units, " AS units");
    }
  }
  if (buyer_rows > 0) {
    packet.AddGuarded(Concat("UPDATE (", buyers, ") d STRAIGHT_JOIN ", ledger_.tables.buyers,
                             " b ON b.sku_id=d.sku_id AND b.buyer=d.buyer SET b.units=b.units-d.units"),
                      buyer_rows, FleetPacket::kAnyTag);
  }
  for (const auto& [id, effect] : effects) {
    const SkuRow& row = skus[id];
    const auto segment = row.removed ? 0 : static_cast<size_t>(lane.index) % row.segment_units.size();
    packet.AddGuarded(
        Concat("UPDATE ", ledger_.tables.stock, " SET units=units+",
               row.removed || DepositsToLimbo(row.latch) ? 0 : effect.back, ",held=held-", effect.back + effect.sold,
               ",sold=sold+", effect.sold, " WHERE sku_id=", id, " AND segment=", segment),
        1, FleetPacket::kAnyTag);
  }

  const FleetOutcome outcome = RunUntilKnown(lane.writer, packet);
  if (outcome.kind == FleetOutcome::Kind::kUnknown) {
    for (auto& [id, call] : ending) call->done(InDoubt(outcome.status));
    return false;
  }
  if (outcome.kind == FleetOutcome::Kind::kSurprise) {
    TryAgain(&Queues::ends, all());  // Something has changed since the orders were read.
    return true;
  }
  if (outcome.kind != FleetOutcome::Kind::kDone) {
    PutBack(&Queues::ends, all());
    return outcome.kind != FleetOutcome::Kind::kAway;
  }
  for (const auto& [id, effect] : effects) {
    FleetLatch& latch = skus[id].latch;
    if (effect.back == 0 || skus[id].removed || !DepositsToLimbo(latch)) continue;
    latch.limbo = FleetSum(latch.limbo, effect.back);
    NoteDeposit(id, latch);
  }
  for (auto& [id, call] : ending) {
    const OrderState state = ends[id];
    metrics_.Add(state == OrderState::kSold ? kCommits : state == OrderState::kCancelled ? kCancels : kExpirations);
    AnswerEnd(*call, state);
  }
  return true;
}

// `state`: that of the order; nullopt: there is none.
void FleetCore::AnswerEnd(FleetEndCall& call, std::optional<OrderState> state) {
  if (!state.has_value()) return call.done(checks_.NoSuchOrder(call.id));
  if (call.to == OrderState::kSold && *state != OrderState::kSold) {
    return call.done(checks_.CannotCommit(call.id, *state));
  }
  if (call.to == OrderState::kCancelled && *state == OrderState::kSold) {
    return call.done(checks_.CannotCancel(call.id));
  }
  call.done(absl::OkStatus());
}

absl::StatusOr<OrderState> FleetCore::StateOf(OrderId id) {
  for (int attempt = 0; attempt < FleetCall::kMaxSurprises; ++attempt) {
    absl::StatusOr<OrderState> state = checks_.NoSuchOrder(id);
    bool due = false;
    const absl::Status asked = RunStep(
        [&](FleetLane& writer) -> std::optional<absl::Status> {
          OrderRows orders;
          int64_t now = 0;
          if (!ReadOrders(writer, Concat("o.order_id=", id), orders, now)) return std::nullopt;
          if (!orders.empty() && orders.begin()->second.kind != OrderKind::kRestock) {
            const OrderRow& order = orders.begin()->second;
            if (!order.damage.empty()) {
              return checks_.Refused(Refusal::kUnavailable,
                                     Concat("the ledger is damaged: order ", id, " has ", order.damage));
            }
            state = order.state;
            due = order.state == OrderState::kHeld && order.at <= now;
          }
          return absl::OkStatus();
        },
        /*reads=*/true);
    if (!asked.ok()) return asked;
    if (!due) return state;
    // The answer will say that it has expired, so the ledger has to say it first.
    const absl::Status expired = EndAll({&id, 1}, OrderState::kExpired)[0];
    if (!expired.ok()) return expired;
  }
  return checks_.Refused(Refusal::kUnavailable, Concat("order ", id, " does not end in the ledger"));
}

}  // namespace stockade::inventory_internal
