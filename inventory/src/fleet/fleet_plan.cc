#include "fleet_plan.h"

#include <algorithm>
#include <numeric>

#include "fleet_rules.h"
#include "order_rules.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Fewer units are not moved to a node: the ledger alone sells the last ones.
constexpr int64_t kLeastFill = 16;

size_t SegmentOf(const FleetSkuRow& row, int32_t lane_index) {
  return static_cast<size_t>(lane_index) % row.segment_units.size();
}

}  // namespace

absl::Status CheckWhole(const RequestChecks& checks, const FleetSkuRow& row) {
  const std::string damage = row.Damage();
  if (damage.empty()) return absl::OkStatus();
  return checks.Refused(Refusal::kUnavailable,
                        Concat("nothing has changed: the ledger is damaged: '", row.name, "' has ", damage));
}

absl::Status CheckWhole(const RequestChecks& checks, const FleetOrderRow& row) {
  if (row.damage.empty()) return absl::OkStatus();
  return checks.Refused(Refusal::kUnavailable,
                        Concat("nothing has changed: the ledger is damaged: order ", row.id, " has ", row.damage));
}

FleetEnds SplitOff(FleetEnds& calls, size_t most_lines) {
  size_t lines = 0;
  size_t fit = 0;
  for (; fit < calls.size(); ++fit) {
    lines += calls[fit]->lines;
    if (fit > 0 && lines > most_lines) break;
  }
  const auto rest = calls.begin() + static_cast<ptrdiff_t>(fit);
  FleetEnds later(std::make_move_iterator(rest), std::make_move_iterator(calls.end()));
  calls.erase(rest, calls.end());
  return later;
}

void FleetEndPlanner::Decide(FleetOrderRows orders, int64_t now) {
  orders_ = std::move(orders);
  std::erase_if(calls, [&](std::unique_ptr<FleetEndCall>& call) {
    const auto found = orders_.find(call->id);
    if (found == orders_.end() || found->second.kind == OrderKind::kRestock) {
      Answer(*call, std::nullopt, 0);
      return true;
    }
    const FleetOrderRow& order = found->second;
    if (absl::Status whole = CheckWhole(checks_, order); !whole.ok()) {
      call->done(std::move(whole));
      return true;
    }
    const bool due = order.at <= now;
    const bool extends = call->to == OrderState::kHeld && !due;
    const int64_t by = extends ? order.ExtensionUs(now, call->ttl_us, max_hold_us_) : 0;
    if (order.state != OrderState::kHeld || (call->to == OrderState::kExpired && !due) || (extends && by == 0)) {
      Answer(*call, order.state, order.at, order.AllReturned());
      return true;
    }
    call->lines = order.lines.size();
    changes_[call->id] = {call->id, order.version, due ? OrderState::kExpired : call->to, order.at + by};
    return false;
  });
}

size_t FleetEndPlanner::lines() const {
  size_t lines = 0;
  for (const auto& call : calls) lines += std::max<size_t>(call->lines, 1);
  return lines;
}

std::vector<uint64_t> FleetEndPlanner::Skus() const {
  absl::flat_hash_set<uint64_t> skus;
  for (const auto& call : calls) {
    if (StateOf(*call) == OrderState::kHeld) continue;
    for (const auto& [sku, quantity] : orders_.at(call->id).lines) skus.insert(sku);
  }
  return {skus.begin(), skus.end()};
}

std::map<uint64_t, absl::Status> FleetEndPlanner::DecideSkus(FleetSkuRows skus) {
  skus_ = std::move(skus);
  std::map<uint64_t, absl::Status> damaged;
  for (const uint64_t sku : Skus()) {
    if (absl::Status whole = CheckWhole(checks_, skus_[sku]); !whole.ok()) damaged[sku] = std::move(whole);
  }
  std::erase_if(calls, [&](std::unique_ptr<FleetEndCall>& call) {
    for (const auto& [sku, quantity] : orders_[call->id].lines) {
      const auto found = damaged.find(sku);
      if (found == damaged.end()) continue;
      call->done(found->second);
      return true;
    }
    return false;
  });
  for (const auto& call : calls) {
    const FleetOrderRow& order = orders_[call->id];
    if (StateOf(*call) == OrderState::kHeld) continue;
    for (const auto& [sku, quantity] : order.lines) {
      Effect& effect = effects_[sku];
      if (StateOf(*call) == OrderState::kSold) {
        effect.sold = FleetSum(effect.sold, quantity);
        continue;
      }
      effect.back = FleetSum(effect.back, quantity);
      if (skus_[sku].per_buyer_limit != 0 && !skus_[sku].removed) {
        int64_t& units = effect.buyers[order.buyer];
        units = FleetSum(units, quantity);
      }
    }
  }
  return damaged;
}

FleetPacket FleetEndPlanner::Packet(int32_t lane_index) const {
  statements::ReturnUnits back{.rows = {}, .draining_is_open = !FleetRules::DrainingStaysInLimbo()};
  statements::EndOrders ends;
  statements::CreditBuyers buyers;
  statements::SettleStock stock;
  for (const auto& call : calls) ends.rows.push_back(changes_.at(call->id));
  for (const auto& [id, effect] : effects_) {
    const FleetSkuRow& row = skus_.at(id);
    const bool to_limbo = !row.removed && DepositsToLimbo(row.latch);
    if (effect.back != 0) back.rows.push_back({id, effect.back, row.removed, to_limbo, row.latch.epoch});
    for (const auto& [buyer, units] : effect.buyers) buyers.rows.push_back({id, buyer, units, row.per_buyer_limit});
    stock.rows.push_back({.sku = id,
                          .segment = row.removed ? 0 : static_cast<int64_t>(SegmentOf(row, lane_index)),
                          .units = row.removed || to_limbo ? 0 : effect.back,
                          .held = effect.back + effect.sold,
                          .sold = effect.sold});
  }
  // In the order of the tables in which all transactions lock rows.
  FleetPacket packet;
  packet.reserve(4);
  packet.push_back({std::move(back)});
  packet.push_back({std::move(ends)});
  packet.push_back({std::move(buyers)});
  packet.push_back({std::move(stock)});
  return packet;
}

std::map<uint64_t, FleetLatch> FleetEndPlanner::Limbo() const {
  std::map<uint64_t, FleetLatch> limbo;
  for (const auto& [id, effect] : effects_) {
    const FleetSkuRow& row = skus_.at(id);
    if (effect.back == 0 || row.removed || !DepositsToLimbo(row.latch)) continue;
    FleetLatch& latch = limbo[id] = row.latch;
    latch.limbo = FleetSum(latch.limbo, effect.back);
  }
  return limbo;
}

void FleetEndPlanner::Answer(FleetEndCall& call, std::optional<OrderState> state, int64_t at, bool all_returned) const {
  using Kind = LedgerRecord::Kind;
  if (!state.has_value()) return call.done(checks_.NoSuchOrder(call.id));
  const Kind kind = call.to == OrderState::kSold        ? Kind::kCommit
                    : call.to == OrderState::kCancelled ? Kind::kCancel
                    : call.to == OrderState::kHeld      ? Kind::kExtend
                                                        : Kind::kExpire;
  if (Judge(kind, *state) == Verdict::kWrongState || (all_returned && kind != Kind::kExpire)) {
    return call.done(checks_.WrongState(kind, call.id, *state, all_returned));
  }
  if (call.asker != nullptr && at != kNever) call.asker->expires_at = absl::FromUnixMicros(at);
  call.done(absl::OkStatus());
}

absl::Status FleetReturnPlanner::Decide(FleetOrderRow order) {
  order_ = std::move(order);
  if (absl::Status whole = CheckWhole(checks_, order_); !whole.ok()) return whole;
  const LedgerRecord::Kind kind = LedgerRecord::Kind::kReturn;
  if (Judge(kind, order_.state) != Verdict::kApply) return checks_.WrongState(kind, call_.id, order_.state);
  for (size_t i = 0; i < call_.lines.size(); ++i) {
    const RequestLine line = {.sku = call_.lines[i].sku, .quantity = call_.lines[i].quantity};
    if (!order_.lines.contains(call_.skus[i])) return checks_.NotInOrder(call_.id, line.sku);
    const int64_t left = order_.Left(call_.skus[i]);
    if (line.quantity > left) return checks_.TooMany(call_.id, line, left);
    units_[call_.skus[i]] = line.quantity;
  }
  if (!call_.lines.empty()) return absl::OkStatus();
  for (const auto& [sku, quantity] : order_.lines) {
    if (const int64_t left = order_.Left(sku); left > 0) units_[sku] = left;
  }
  return units_.empty() ? checks_.NothingLeft(call_.id) : absl::OkStatus();
}

std::vector<uint64_t> FleetReturnPlanner::Skus() const {
  std::vector<uint64_t> skus;
  skus.reserve(units_.size());
  for (const auto& [sku, units] : units_) skus.push_back(sku);
  return skus;
}

absl::Status FleetReturnPlanner::DecideSkus(FleetSkuRows skus) {
  skus_ = std::move(skus);
  for (const auto& [sku, units] : units_) {
    if (absl::Status whole = CheckWhole(checks_, skus_[sku]); !whole.ok()) return whole;
  }
  return absl::OkStatus();
}

FleetPacket FleetReturnPlanner::Packet(int32_t lane_index) const {
  statements::ReturnUnits back{.rows = {}, .draining_is_open = !FleetRules::DrainingStaysInLimbo()};
  statements::InsertChange change{.id = call_.id,
                                  .version = order_.version + 1,
                                  .kind = call_.kind,
                                  .of_all = call_.lines.empty(),
                                  .request = call_.request,
                                  .lines = {}};
  statements::CreditBuyers buyers;
  statements::SettleStock stock;
  for (const auto& [id, units] : units_) {
    const FleetSkuRow& row = skus_.at(id);
    const bool to_stock = ToStock(row);
    const bool to_limbo = to_stock && DepositsToLimbo(row.latch);
    back.rows.push_back({id, units, row.removed, to_limbo, row.latch.epoch, call_.kind == ChangeKind::kWriteOff});
    change.lines.push_back({.sku = id, .quantity = units, .to_stock = to_stock});
    if (row.per_buyer_limit != 0 && !row.removed) buyers.rows.push_back({id, order_.buyer, units, row.per_buyer_limit});
    stock.rows.push_back({.sku = id,
                          .segment = row.removed ? 0 : static_cast<int64_t>(SegmentOf(row, lane_index)),
                          .units = to_stock && !to_limbo ? units : 0,
                          .held = 0,
                          .sold = -units});
  }
  // In the order of the tables in which all transactions lock rows.
  FleetPacket packet;
  packet.reserve(6);
  packet.push_back({std::move(back)});
  packet.push_back({statements::InsertRequests{.rows = {{call_.request, call_.id}}, .fingerprints = {}}});
  packet.push_back({statements::ChangeSold{call_.id, order_.version}});
  packet.push_back({std::move(buyers)});
  packet.push_back({std::move(change)});
  packet.push_back({std::move(stock)});
  return packet;
}

std::vector<ReturnedLine> FleetReturnPlanner::Returned() const {
  std::vector<ReturnedLine> lines;
  lines.reserve(units_.size());
  for (const auto& [id, units] : units_) {
    const FleetSkuRow& row = skus_.at(id);
    lines.push_back({.sku = row.name, .quantity = units, .to_stock = ToStock(row)});
  }
  std::ranges::sort(lines, {}, &ReturnedLine::sku);
  return lines;
}

std::map<uint64_t, FleetLatch> FleetReturnPlanner::Limbo() const {
  std::map<uint64_t, FleetLatch> limbo;
  for (const auto& [id, units] : units_) {
    const FleetSkuRow& row = skus_.at(id);
    if (!ToStock(row) || !DepositsToLimbo(row.latch)) continue;
    FleetLatch& latch = limbo[id] = row.latch;
    latch.mode = FleetMode::kDraining;
    latch.limbo = FleetSum(latch.limbo, units);
  }
  return limbo;
}

void AnswerGranted(FleetGrantCall& call, OrderId id, OrderState state, int64_t created_at, int64_t ttl_us) {
  call.asker->Make(
      {.id = id,
       .state = state,
       .expires_at = ttl_us == kNever ? absl::InfiniteFuture() : absl::FromUnixMicros(FleetSum(created_at, ttl_us)),
       .request_id = call.request_id,
       .buyer = call.buyer,
       .sku = call.lines[0].sku,
       .quantity = call.lines[0].quantity,
       .lines = call.kind == OrderKind::kBasket ? std::vector(call.lines.begin(), call.lines.end())
                                                : std::vector<OrderLine>()});
  call.done(absl::OkStatus());
}

FleetGrantQuery GrantQueryOf(const FleetGrants& calls, bool is_imported) {
  FleetGrantQuery question;
  absl::flat_hash_set<uint64_t> skus;
  for (const auto& call : calls) {
    question.requests.push_back(call->request);
    if (is_imported) question.fingerprints.push_back(call->imported_fingerprint);
    for (const uint64_t sku : call->skus) {
      skus.insert(sku);
      if (!call->buyer.empty()) question.buyers[sku].push_back(call->buyer_hash);
    }
  }
  question.skus.assign(skus.begin(), skus.end());
  return question;
}

FleetGrantPlanner::FleetGrantPlanner(FleetGrantRows rows, const RequestChecks& checks, NoteFound note_found)
    : rows_(std::move(rows)), checks_(checks), note_found_(std::move(note_found)) {
  for (const auto& [id, row] : rows_.skus) units_left_[id] = row.units;
}

const FleetSkuRow* FleetGrantPlanner::RowOf(const FleetGrantCall& call, size_t line) const {
  const auto row = rows_.skus.find(call.skus[line]);
  if (row == rows_.skus.end() || row->second.removed || row->second.name != call.lines[line].sku) return nullptr;
  return &row->second;
}

void FleetGrantPlanner::Decide(std::unique_ptr<FleetGrantCall> call) {
  const auto found = rows_.orders.find(call->request);
  const bool is_imported = std::ranges::count(rows_.forgotten, call->imported_fingerprint) > 0;
  if (found != rows_.orders.end() || is_imported) {
    found_repeat_ = true;
    if (found != rows_.orders.end() && found->second.has_value()) return AnswerRepeat(std::move(call), *found->second);
    return call->done(checks_.Forgotten(call->request_id));
  }
  // In the order that Inventory states: the buyer, unknown SKUs, units.
  bool is_first = true;
  absl::Status can = CheckBuyers(*call, is_first);
  if (can.ok()) can = CheckSkus(*call);
  if (can.ok()) can = CheckUnits(*call, is_first);
  if (!can.ok()) return call->done(std::move(can));
  call->look = !is_first;
  if (!is_first) return later.push_back(std::move(call));
  for (size_t i = 0; i < call->lines.size(); ++i) {
    units_left_[call->skus[i]] -= call->lines[i].quantity;
    taken_by_buyer_[{call->skus[i], call->buyer_hash}] += call->lines[i].quantity;
  }
  trying.push_back(std::move(call));
}

absl::Status FleetGrantPlanner::CheckBuyers(const FleetGrantCall& call, bool& is_first) {
  for (size_t i = 0; i < call.lines.size(); ++i) {
    const FleetSkuRow* const row = RowOf(call, i);
    if (row == nullptr || row->per_buyer_limit == 0) continue;
    const OrderLine& line = call.lines[i];
    if (call.buyer.empty()) return checks_.MissingBuyer(call.request_id, line.sku);
    const std::pair key(call.skus[i], call.buyer_hash);
    const auto known = rows_.buyer_units.find(key);
    const int64_t has = known == rows_.buyer_units.end() ? 0 : known->second;
    if (line.quantity > row->per_buyer_limit - has) {
      return checks_.OverBuyerLimit(call.buyer, has, {.sku = line.sku, .quantity = line.quantity},
                                    row->per_buyer_limit);
    }
    is_first &= line.quantity <= row->per_buyer_limit - has - taken_by_buyer_[key];
  }
  return absl::OkStatus();
}

absl::Status FleetGrantPlanner::CheckSkus(const FleetGrantCall& call) const {
  for (size_t i = 0; i < call.lines.size(); ++i) {
    const FleetSkuRow* const row = RowOf(call, i);
    if (row == nullptr) return checks_.UnknownSku(call.lines[i].sku);
    if (absl::Status whole = CheckWhole(checks_, *row); !whole.ok()) return whole;
  }
  return absl::OkStatus();
}

absl::Status FleetGrantPlanner::CheckUnits(const FleetGrantCall& call, bool& is_first) {
  for (size_t i = 0; i < call.lines.size(); ++i) {
    const OrderLine& line = call.lines[i];
    const FleetSkuRow& row = *RowOf(call, i);
    if (line.quantity > row.UnitsForSale()) {
      short_skus_.insert(call.skus[i]);
      return checks_.Short({.sku = line.sku, .quantity = line.quantity}, row.unsold());
    }
    is_first &= line.quantity <= units_left_[call.skus[i]];
  }
  return absl::OkStatus();
}

void FleetGrantPlanner::AnswerRepeat(std::unique_ptr<FleetGrantCall> call, const FleetOrderRow& order) {
  absl::Status can = CheckWhole(checks_, order);
  if (can.ok()) can = CheckSame(*call, order);
  if (!can.ok()) return call->done(std::move(can));
  // The answer will say that it has expired, so the ledger has to say it first.
  if (order.state == OrderState::kHeld && order.at <= rows_.now) {
    due.emplace_back(std::move(call), order.id);
    return;
  }
  note_found_(*call, order.id);
  AnswerGranted(*call, order.id, order.state, order.created_at, order.ttl_us);
}

absl::Status FleetGrantPlanner::CheckSame(const FleetGrantCall& call, const FleetOrderRow& order) const {
  const auto differs = [&](std::string_view what) { return checks_.Mismatch(call.request_id, what); };
  if (order.is_change || call.kind != order.kind) return differs(RequestChecks::kCallKind);
  if (call.buyer_hash != order.buyer) return differs("buyer");
  std::map<uint64_t, int64_t> lines;
  for (size_t i = 0; i < call.lines.size(); ++i) lines[call.skus[i]] = call.lines[i].quantity;
  const auto same_sku = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::ranges::equal(lines, order.lines, same_sku)) return differs("sku");
  if (lines != order.lines) return differs("quantity");
  if (call.kind != OrderKind::kTake && FleetMicros(call.ttl) != order.ttl_us) return differs("ttl");
  return absl::OkStatus();
}

void FleetGrantBatch::Add(const FleetGrants& calls) {
  for (const auto& call : calls) {
    for (size_t i = 0; i < call->lines.size(); ++i) {
      Payment& payment = payments[call->skus[i]];
      payment.sku = call->skus[i];
      (call->kind == OrderKind::kTake ? payment.sold : payment.held) += call->lines[i].quantity;
    }
  }
}

FleetPacket FleetGrantBatch::Packet(const FleetGrants& calls, OrderId first, bool is_imported) const {
  statements::InsertRequests requests;
  std::map<std::pair<uint64_t, FleetHash>, int64_t> bought;
  statements::InsertOrders orders;
  requests.rows.reserve(calls.size());
  orders.rows.reserve(calls.size());
  OrderId id = first;
  for (const auto& call : calls) {
    requests.rows.emplace_back(call->request, id);
    if (is_imported) requests.fingerprints.push_back(call->imported_fingerprint);
    auto& order = orders.rows.emplace_back();
    order = {id++, call->request, call->buyer_hash, call->kind, FleetMicros(call->ttl), {}};
    for (size_t i = 0; i < call->lines.size(); ++i) {
      const uint64_t sku = call->skus[i];
      order.lines.emplace_back(sku, call->lines[i].quantity);
      if (payments.at(sku).limit != 0) bought[{sku, call->buyer_hash}] += call->lines[i].quantity;
    }
  }
  statements::ChargeBuyers buyers;
  for (const auto& [key, units] : bought) {
    buyers.rows.push_back({key.first, key.second, units, payments.at(key.first).limit});
  }
  FleetPacket packet;
  packet.reserve(kStock + payments.size());
  packet.push_back({std::move(requests), kRequests});
  packet.push_back({std::move(buyers), kBuyers});
  packet.push_back({std::move(orders), kOrders});
  size_t tag = kStock;
  for (const auto& [sku, payment] : payments) {
    statements::Pay pay = payment;
    if (pay.fence.has_value() && !FleetRules::ChecksNodeRow()) {
      pay.fence.reset();
      pay.may_lack = true;
    }
    packet.push_back({pay, tag++});
  }
  return packet;
}

std::optional<uint64_t> FleetGrantBatch::SkuOf(size_t tag) const {
  if (tag < kStock) return std::nullopt;
  return std::next(payments.begin(), static_cast<ptrdiff_t>(tag - kStock))->first;
}

FleetPacket RestockPacket(uint64_t sku, const FleetSkuRow& row, int64_t units,
                          const std::optional<std::pair<FleetHash, OrderId>>& request) {
  const bool to_limbo = DepositsToLimbo(row.latch);
  FleetPacket packet = {{statements::Restock{sku, units, row.latch.mode, row.latch.epoch, to_limbo}}};
  if (request.has_value()) {
    packet.push_back({statements::InsertRequests{.rows = {*request}}});
    packet.push_back({statements::InsertOrders{
        .rows = {{request->second, request->first, {}, OrderKind::kRestock, kNever, {{sku, units}}}}}});
  }
  if (!to_limbo)
    packet.push_back({statements::SpreadUnits{sku, units, static_cast<int32_t>(row.segment_units.size())}});
  return packet;
}

std::optional<FleetPacket> LatchPacket(uint64_t sku, const FleetSkuRow& row, absl::Duration lease) {
  const bool or_draining = !FleetRules::LatchesOpenOnly();
  const bool is_open = row.latch.mode == FleetMode::kOpen || (or_draining && row.latch.mode == FleetMode::kDraining);
  if (!is_open || row.units != 0) return std::nullopt;
  return FleetPacket{{statements::Latch{sku, absl::ToInt64Microseconds(lease), or_draining}}};
}

FleetPacket MovePacket(const FleetSoldOut::Move& move) {
  statements::MoveLimbo limbo{.sku = move.sku, .epoch = {}};
  if (FleetRules::MovesInItsEpoch()) limbo.epoch = move.epoch;
  return {{limbo}};
}

FleetPacket ForgetPacket(const FleetOrderRows& orders) {
  statements::Forget forget;
  for (const auto& [id, order] : orders) {
    if (!order.damage.empty()) continue;
    forget.orders.emplace_back(id, order.version);
    if (order.state != OrderState::kSold || order.kind == OrderKind::kRestock) continue;
    for (const auto& [sku, quantity] : order.lines) forget.sold[sku] = FleetSum(forget.sold[sku], order.Left(sku));
  }
  if (forget.orders.empty()) return {};
  return {{std::move(forget)}};
}

std::optional<statements::FillNode> PlanFill(uint64_t sku, const FleetSkuRow& row, int32_t lane_index, size_t nodes,
                                             int32_t node_segment, int64_t most, int64_t least_generation) {
  // Half of the units stays with the ledger, for lanes whose nodes are away.
  const size_t own = SegmentOf(row, lane_index);
  const size_t from = row.segment_units[own] / 2 >= kLeastFill ? own : 0;
  const int64_t in_ledger = std::accumulate(row.segment_units.begin(), row.segment_units.end(), int64_t{0});
  const int64_t units = std::min({in_ledger / (2 * static_cast<int64_t>(nodes)), row.segment_units[from] / 2, most});
  if (units < kLeastFill) return std::nullopt;
  statements::FillNode fill{.sku = sku,
                            .from = static_cast<int64_t>(from),
                            .node = node_segment,
                            .units = units,
                            .before = {},
                            .after = {.fence = std::max<int64_t>(least_generation, 1), .fills = 1}};
  if (const auto found = row.nodes.find(node_segment); found != row.nodes.end()) {
    fill.before = found->second;
    // A lane that has seen the end of the row's generation begins another one.
    fill.after = {.fence = std::max(fill.after.fence, found->second.fence), .fills = found->second.fills + 1};
  }
  return fill;
}

}  // namespace stockade::inventory_internal
