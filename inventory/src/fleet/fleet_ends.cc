// How orders end, once: they are committed, cancelled or expire.

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fleet_core.h"
#include "fleet_rules.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

std::string JoinIds(const FleetEnds& calls) {
  return absl::StrJoin(calls, ",", [](std::string* out, const auto& call) { absl::StrAppend(out, call->id); });
}

std::string InIds(const FleetEnds& calls) { return Concat("o.order_id IN (", JoinIds(calls), ")"); }

// Those of orders that an earlier call is about.
FleetEnds TakeRepeats(FleetEnds& calls) {
  FleetEnds repeats;
  absl::flat_hash_set<OrderId> ids;
  std::erase_if(calls, [&](std::unique_ptr<FleetEndCall>& call) {
    if (ids.insert(call->id).second) return false;
    repeats.push_back(std::move(call));
    return true;
  });
  return repeats;
}

// Rows that an UPDATE of several rows joins with a table, in the order in which it locks them: ascending by key.
class JoinedRows {
 public:
  // The names of the values that Add() gets.
  explicit JoinedRows(std::vector<std::string_view> columns) : columns_(std::move(columns)) {}

  template <typename... Values>
  void Add(const Values&... values) {
    if (parts_.empty() || parts_.back().rows == kMostRows) parts_.emplace_back();
    Part& part = parts_.back();
    part.sql += part.rows++ == 0 ? "SELECT " : " UNION ALL SELECT ";
    size_t column = 0;
    const auto add = [&](const auto& value) {
      part.sql += Concat(column == 0 ? "" : ",", value);
      if (part.rows == 1) part.sql += Concat(" AS ", columns_[column]);  // The first row names the columns.
      ++column;
    };
    (add(values), ...);
  }
  // `d` are these rows, `t` those of the table.
  void Update(FleetPacket& packet, std::string_view table, std::string_view on, std::string_view set) const {
    for (const Part& part : parts_) {
      packet.AddGuarded(
          Concat("UPDATE (", part.sql, ") d STRAIGHT_JOIN ", table, " t", kByKey, " ON ", on, " SET ", set), part.rows);
    }
  }

 private:
  // Of one statement: a server may need stack for each.
  static constexpr int64_t kMostRows = 256;
  struct Part {
    std::string sql = {};
    int64_t rows = 0;
  };

  const std::vector<std::string_view> columns_;
  std::vector<Part> parts_;
};

}  // namespace

// Calls that end orders in one packet, each of another one, and what the ledger says of them.
struct FleetCore::Ending {
  // What the ends change of a SKU.
  struct Effect {
    int64_t sold = 0;
    int64_t back = 0;
    std::map<FleetHash, int64_t> buyers = {};  // Units that no longer count against a limit.
  };

  FleetEnds calls = {};
  FleetOrderRows orders = {};
  FleetSkuRows skus = {};
  std::map<OrderId, OrderState> states = {};  // What the orders become.
  std::map<uint64_t, Effect> effects = {};    // By SKU.

  size_t lines() const {
    size_t lines = 0;
    for (const auto& call : calls) lines += std::max<size_t>(call->lines, 1);
    return lines;
  }
};

std::string FleetCore::IsSmallOrder() const {
  return Concat("(o.sku_id<>0 OR (SELECT s.sku_id FROM ", ledger_.tables.order_lines,
                " s WHERE s.order_id=o.order_id ORDER BY s.sku_id LIMIT 1 OFFSET ", kSmallLines, ") IS NULL)");
}

bool FleetCore::ReadOrders(FleetLane& writer, std::string_view where, FleetOrderRows& orders, int64_t& now,
                           std::vector<OrderId>* large) {
  const std::string small = IsSmallOrder();
  std::vector<FleetOrderColumns> rows;
  std::vector<OrderId> large_ids;
  const MySqlReply reply = writer.Read(
      Concat("SELECT ", kFleetOrderColumns, " FROM ", ledger_.tables.orders, " o LEFT JOIN ",
             ledger_.tables.order_lines, " l ON l.order_id=o.order_id WHERE ", where,
             large == nullptr ? "" : Concat(" AND ", small), ";SELECT o.order_id FROM ", ledger_.tables.orders,
             " o WHERE ", large == nullptr ? std::string("FALSE") : Concat(where, " AND NOT ", small), ";SELECT ",
             kFleetNow),
      MySqlInto(rows, large_ids, now));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  for (const FleetOrderColumns& row : rows) orders[std::get<0>(row)].Add(row);
  if (large != nullptr) *large = std::move(large_ids);
  now = FleetClamp(now);
  return true;
}

absl::Status FleetCore::CheckWholeAndLog(Lane& lane, uint64_t sku, const FleetSkuRow& row) {
  absl::Status whole = CheckWhole(row);
  if (whole.ok()) {
    lane.damaged.erase(sku);
  } else if (lane.damaged.insert(sku).second) {
    Log(LogSeverity::kError, Concat(whole.message()));
  }
  return whole;
}

// Those after the first ones that together have at most `lane.most_lines` lines, and at least one.
FleetEnds FleetCore::SplitOff(const Lane& lane, FleetEnds& calls) {
  size_t lines = 0;
  size_t fit = 0;
  for (; fit < calls.size(); ++fit) {
    lines += calls[fit]->lines;
    if (fit > 0 && lines > lane.most_lines) break;
  }
  const auto rest = calls.begin() + static_cast<ptrdiff_t>(fit);
  FleetEnds later(std::make_move_iterator(rest), std::make_move_iterator(calls.end()));
  calls.erase(rest, calls.end());
  return later;
}

bool FleetCore::GoneAway(Lane& lane, EndQueue queue, Ending& ending) {
  NoteLost(lane, ending.lines());
  PutBack(queue, std::move(ending.calls));
  return false;
}

bool FleetCore::CountLines(Lane& lane, FleetEnds& calls) {
  std::vector<std::tuple<OrderId, uint64_t>> counts;
  const MySqlReply reply = lane.writer.Read(Concat("SELECT order_id,COUNT(*) FROM ", ledger_.tables.order_lines,
                                                   " WHERE order_id IN (", JoinIds(calls), ") GROUP BY order_id"),
                                            MySqlInto(counts));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  std::map<OrderId, uint64_t> lines;
  for (const auto& [id, count] : counts) lines[id] = count;
  std::erase_if(calls, [&](std::unique_ptr<FleetEndCall>& call) {
    const auto found = lines.find(call->id);
    call->lines = found == lines.end() ? 1 : found->second;
    if (call->lines <= kMaxBasketLines) return false;
    call->done(CheckWhole(FleetOrderRow{.id = call->id, .damage = Concat(call->lines, " lines")}));
    return true;
  });
  return true;
}

bool FleetCore::ServeEnds(Lane& lane, FleetEnds calls) {
  Ending ending{.calls = std::move(calls)};
  PutBack(&Queues::ends, TakeRepeats(ending.calls));
  std::vector<OrderId> large;
  int64_t now = 0;
  if (!ReadOrders(lane.writer, InIds(ending.calls), ending.orders, now, &large))
    return GoneAway(lane, &Queues::ends, ending);
  std::ranges::sort(large);
  FleetEnds large_calls;
  std::erase_if(ending.calls, [&](std::unique_ptr<FleetEndCall>& call) {
    if (!std::ranges::binary_search(large, call->id)) return false;
    call->lines = kSmallLines + 1;
    large_calls.push_back(std::move(call));
    return true;
  });
  if (!large_calls.empty()) {
    const MutexLock lock(mutex_);
    std::ranges::move(large_calls, std::back_inserter(queues_.large_ends));
    WakeUp();
  }
  JudgeEnds(ending, now);
  PutBack(&Queues::ends, SplitOff(lane, ending.calls));
  return EndOrders(lane, &Queues::ends, ending);
}

bool FleetCore::ServeLargeEnds(Lane& lane, FleetEnds calls) {
  PutBack(&Queues::large_ends, TakeRepeats(calls));
  if (!CountLines(lane, calls)) {
    NoteLost(lane, calls.size());
    PutBack(&Queues::large_ends, std::move(calls));
    return false;
  }
  PutBack(&Queues::large_ends, SplitOff(lane, calls));
  return calls.empty() || EndLarge(lane, std::move(calls));
}

bool FleetCore::EndLarge(Lane& lane, FleetEnds calls) {
  Ending ending{.calls = std::move(calls)};
  int64_t now = 0;
  if (!ReadOrders(lane.writer, InIds(ending.calls), ending.orders, now)) {
    return GoneAway(lane, &Queues::large_ends, ending);
  }
  JudgeEnds(ending, now);
  return EndOrders(lane, &Queues::large_ends, ending);
}

// Answers the calls whose orders do not end by them.
void FleetCore::JudgeEnds(Ending& ending, int64_t now) {
  std::erase_if(ending.calls, [&](std::unique_ptr<FleetEndCall>& call) {
    const auto found = ending.orders.find(call->id);
    if (found == ending.orders.end() || found->second.kind == OrderKind::kRestock) {
      AnswerEnd(*call, std::nullopt);
      return true;
    }
    const FleetOrderRow& order = found->second;
    if (absl::Status whole = CheckWhole(order); !whole.ok()) {
      call->done(std::move(whole));
      return true;
    }
    const bool due = order.at <= now;
    if (order.state != OrderState::kHeld || (call->to == OrderState::kExpired && !due)) {
      AnswerEnd(*call, order.state);
      return true;
    }
    call->lines = order.lines.size();
    ending.states[call->id] = due ? OrderState::kExpired : call->to;
    return false;
  });
}

bool FleetCore::EndOrders(Lane& lane, EndQueue queue, Ending& ending) {
  if (ending.calls.empty()) {
    NotePassed(lane);
    return true;
  }
  absl::flat_hash_set<uint64_t> skus;
  for (const auto& call : ending.calls) {
    for (const auto& [sku, quantity] : ending.orders[call->id].lines) skus.insert(sku);
  }
  if (!ReadSkus(lane.writer, Concat("s.sku_id IN (", absl::StrJoin(skus, ","), ")"), ending.skus)) {
    return GoneAway(lane, queue, ending);
  }
  std::erase_if(ending.calls, [&](std::unique_ptr<FleetEndCall>& call) {
    for (const auto& [sku, quantity] : ending.orders[call->id].lines) {
      absl::Status whole = CheckWholeAndLog(lane, sku, ending.skus[sku]);
      if (whole.ok()) continue;
      call->done(std::move(whole));
      return true;
    }
    return false;
  });
  if (ending.calls.empty()) return true;
  SumUpEnds(ending);

  const FleetOutcome outcome = RunUntilKnown(lane.writer, EndsPacket(lane, ending));
  NoteSize(lane, ending.lines(), outcome);
  if (queue == &Queues::ends) {
    const MutexLock lock(mutex_);
    small_ends_first_ = false;
  }
  if (outcome.kind == FleetOutcome::Kind::kUnknown) {
    for (auto& call : ending.calls) call->done(InDoubt(outcome.status));
    return false;
  }
  if (outcome.kind == FleetOutcome::Kind::kSurprise) {
    TryAgain(queue, std::move(ending.calls));  // Something has changed since the orders were read.
    return true;
  }
  if (outcome.kind != FleetOutcome::Kind::kDone) return PutBackUndone(queue, std::move(ending.calls), outcome);
  for (const auto& [id, effect] : ending.effects) {
    FleetLatch& latch = ending.skus[id].latch;
    if (effect.back == 0 || ending.skus[id].removed || !DepositsToLimbo(latch)) continue;
    latch.limbo = FleetSum(latch.limbo, effect.back);
    NoteDeposit(id, latch);
  }
  for (auto& call : ending.calls) {
    const OrderState state = ending.states[call->id];
    metrics_.Add(state == OrderState::kSold ? kCommits : state == OrderState::kCancelled ? kCancels : kExpirations);
    AnswerEnd(*call, state);
  }
  return true;
}

void FleetCore::SumUpEnds(Ending& ending) {
  for (const auto& call : ending.calls) {
    const FleetOrderRow& order = ending.orders[call->id];
    for (const auto& [sku, quantity] : order.lines) {
      Ending::Effect& effect = ending.effects[sku];
      if (ending.states[call->id] == OrderState::kSold) {
        effect.sold = FleetSum(effect.sold, quantity);
        continue;
      }
      effect.back = FleetSum(effect.back, quantity);
      if (ending.skus[sku].per_buyer_limit != 0 && !ending.skus[sku].removed) {
        int64_t& units = effect.buyers[order.buyer];
        units = FleetSum(units, quantity);
      }
    }
  }
}

// In the order of the tables in which all transactions lock rows.
FleetPacket FleetCore::EndsPacket(const Lane& lane, const Ending& ending) const {
  FleetPacket packet;
  AddDeposits(packet, ending);

  std::map<OrderState, std::vector<OrderId>> by_state;
  std::vector<OrderId> ids;
  for (const auto& call : ending.calls) {
    by_state[ending.states.at(call->id)].push_back(call->id);
    ids.push_back(call->id);
  }
  // In one statement, so that its order is that of the keys.
  const auto in = [&](OrderState state) {
    const auto found = by_state.find(state);
    return found == by_state.end() ? std::string("FALSE")
                                   : Concat("order_id IN (", absl::StrJoin(found->second, ","), ")");
  };
  packet.AddGuarded(Concat("UPDATE ", ledger_.tables.orders, kByKey, " SET state=IF(", in(OrderState::kSold), ",1,IF(",
                           in(OrderState::kCancelled), ",2,3)),at=@now WHERE order_id IN (", absl::StrJoin(ids, ","),
                           ") AND state=0 AND IF(", in(OrderState::kExpired), ",at<=@now,at>@now)"),
                    static_cast<int64_t>(ids.size()));

  JoinedRows buyers({"sku_id", "buyer", "units"});
  JoinedRows stock({"sku_id", "segment", "units", "held", "sold"});
  for (const auto& [id, effect] : ending.effects) {
    for (const auto& [buyer, units] : effect.buyers) buyers.Add(id, FleetHashLiteral(buyer), units);
    const FleetSkuRow& row = ending.skus.at(id);
    const size_t segment = row.removed ? 0 : static_cast<size_t>(lane.index) % row.segment_units.size();
    stock.Add(id, segment, row.removed || DepositsToLimbo(row.latch) ? 0 : effect.back, effect.back + effect.sold,
              effect.sold);
  }
  buyers.Update(packet, ledger_.tables.buyers, "t.sku_id=d.sku_id AND t.buyer=d.buyer", "t.units=t.units-d.units");
  stock.Update(packet, ledger_.tables.stock, "t.sku_id=d.sku_id AND t.segment=d.segment",
               "t.units=t.units+d.units,t.held=t.held-d.held,t.sold=t.sold+d.sold");
  return packet;
}

// The rows of the SKUs whose units come back: they are locked, are as they were read, and get what does not go to
// stock.
void FleetCore::AddDeposits(FleetPacket& packet, const Ending& ending) const {
  std::vector<uint64_t> all;
  std::vector<uint64_t> open;
  JoinedRows removed({"sku_id", "units"});
  JoinedRows limbo({"sku_id", "epoch", "units"});
  for (const auto& [id, effect] : ending.effects) {
    if (effect.back == 0) continue;
    const FleetSkuRow& row = ending.skus.at(id);
    all.push_back(id);
    if (row.removed) {
      removed.Add(id, effect.back);
    } else if (DepositsToLimbo(row.latch)) {
      limbo.Add(id, row.latch.epoch, effect.back);
    } else {
      open.push_back(id);
    }
  }
  const auto lock = [&](const std::vector<uint64_t>& ids, std::string_view how) {
    packet.Add(Concat("SELECT COUNT(*) INTO @locked FROM ", ledger_.tables.skus, kByKey, " WHERE sku_id IN (",
                      absl::StrJoin(ids, ","), ")", how));
  };
  // Ascending, before statements that are not so together.
  if (open.size() != all.size()) lock(all, " FOR UPDATE");
  if (!open.empty()) {
    lock(open, FleetRules::DrainingStaysInLimbo() ? " AND removed=0 AND mode=0 LOCK IN SHARE MODE"
                                                  : " AND removed=0 AND mode<>1 LOCK IN SHARE MODE");
    packet.AddCondition(Concat("@locked=", open.size()));
  }
  removed.Update(packet, ledger_.tables.skus, "t.sku_id=d.sku_id AND t.removed=1", "t.granted=t.granted-d.units");
  limbo.Update(packet, ledger_.tables.skus, "t.sku_id=d.sku_id AND t.removed=0 AND t.mode<>0 AND t.epoch=d.epoch",
               "t.limbo=t.limbo+d.units,t.mode=2");
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

}  // namespace stockade::inventory_internal
