// How requests get their units: many in one transaction, each once.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fleet_core.h"
#include "fleet_pause.h"
#include "fleet_rules.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_literal.h"

namespace stockade::inventory_internal {
namespace {

// The tags of the statements of a grant. The payment of SKU i has kStock + i.
enum Tag : size_t { kRequests, kBuyers, kOrders, kOrderLines, kStock };

// After a repeat was met, so many packets of the lane look for repeats first: a repeat that is met in a transaction
// rolls all of it back.
constexpr int kLooksAfterRepeat = 8;

// Of orders that one look reads: more than those of requests that are repeated as they were.
constexpr size_t kMostLinesLooked = 2 * kMaxLines;

// Requests for more look first, so that no sum of those that do not overflows.
constexpr int64_t kLargeQuantity = int64_t{1} << 40;

absl::Time ExpiresAt(int64_t created_at, int64_t ttl_us) {
  return ttl_us == kNever ? absl::InfiniteFuture() : absl::FromUnixMicros(FleetSum(created_at, ttl_us));
}

size_t LinesOf(const FleetGrants& calls) {
  size_t lines = 0;
  for (const auto& call : calls) lines += call->lines.size();
  return lines;
}

int64_t TtlUs(absl::Duration ttl) { return ttl == absl::InfiniteDuration() ? kNever : absl::ToInt64Microseconds(ttl); }

}  // namespace

// What the ledger says of some requests. The stock was read first, then the buyers, and the request ids last: so a
// request that is refused for lack of units had not taken any when they were counted.
struct FleetCore::Looked {
  int64_t now = 0;
  FleetSkuRows skus = {};
  std::map<std::pair<uint64_t, FleetHash>, int64_t> buyer_units = {};
  std::map<FleetHash, std::optional<FleetOrderRow>> orders = {};  // nullopt: forgotten.

  // What requests that may be tried together leave of the units and of the limits.
  std::map<uint64_t, int64_t> units_left = {};
  std::map<std::pair<uint64_t, FleetHash>, int64_t> taken_by_buyer = {};
  absl::flat_hash_set<uint64_t> short_skus = {};
  bool found_repeat = false;
  // The orders of the ids have more lines than the requests, and were not read to the end.
  bool is_cut = false;
};

bool FleetCore::ServeGrants(Lane& lane, FleetGrants calls) {
  FleetGrants looking;
  FleetGrants trying;
  FleetGrants later;
  absl::flat_hash_set<FleetHash> ids;
  {
    const MutexLock lock(mutex_);
    for (std::unique_ptr<FleetGrantCall>& call : calls) {
      if (!ids.insert(call->request).second) {
        call->look = true;  // The first one decides.
        later.push_back(std::move(call));
        continue;
      }
      bool look = call->look || lane.look_batches > 0;
      for (size_t i = 0; i < call->skus.size() && !look; ++i) {
        const auto known = skus_.find(call->skus[i]);
        look = known == skus_.end() || known->second.scarce || call->lines[i].quantity > kLargeQuantity ||
               (known->second.per_buyer_limit != 0 &&
                (call->buyer.empty() || call->lines[i].quantity > known->second.per_buyer_limit));
      }
      (look ? looking : trying).push_back(std::move(call));
    }
  }
  PutBack(&Queues::grants, std::move(later));
  if (!looking.empty() && !Look(lane, std::move(looking), trying)) {
    PutBack(&Queues::grants, std::move(trying));
    return false;
  }
  return (trying.empty() || Try(lane, std::move(trying))) && FillNode(lane);
}

bool FleetCore::Look(Lane& lane, FleetGrants calls, FleetGrants& trying) {
  Looked looked;
  if (!ReadLooked(lane.writer, calls, looked)) {
    NoteLost(lane, LinesOf(calls));
    PutBack(&Queues::grants, std::move(calls));
    return false;
  }
  if (looked.is_cut && calls.size() > 1) {
    NoteLost(lane, calls.size());
    for (auto& call : calls) call->look = true;
    PutBack(&Queues::grants, std::move(calls));
    return true;
  }
  NotePassed(lane);
  FleetGrants later;
  for (std::unique_ptr<FleetGrantCall>& call : calls) Judge(std::move(call), looked, trying, later);
  lane.look_batches = looked.found_repeat ? kLooksAfterRepeat : std::max(lane.look_batches - 1, 0);
  NoteLook(lane, looked);
  PutBack(&Queues::grants, std::move(later));
  LatchEmpty(lane, looked.skus, looked.short_skus);
  return true;
}

// The condition that a fingerprint is that of one of the calls.
std::string FleetCore::InImported(const FleetGrants& calls) const {
  if (!ledger_.keys.imported.has_value()) return "FALSE";
  return Concat(
      "fingerprint IN (",
      absl::StrJoin(calls, ",",
                    [](std::string* out, const auto& call) { absl::StrAppend(out, call->imported_fingerprint); }),
      ")");
}

bool FleetCore::ReadLooked(FleetLane& writer, const FleetGrants& calls, Looked& looked) {
  absl::flat_hash_set<uint64_t> skus;
  std::map<uint64_t, std::vector<std::string>> buyers;
  std::vector<std::string> ids;
  for (const std::unique_ptr<FleetGrantCall>& call : calls) {
    ids.push_back(FleetHashLiteral(call->request));
    for (const uint64_t sku : call->skus) {
      skus.insert(sku);
      if (!call->buyer.empty()) buyers[sku].push_back(FleetHashLiteral(call->buyer_hash));
    }
  }
  std::string buyers_sql;
  for (const auto& [sku, of_sku] : buyers) {
    buyers_sql +=
        Concat(buyers_sql.empty() ? "" : " OR ", "(sku_id=", sku, " AND buyer IN (", absl::StrJoin(of_sku, ","), "))");
  }
  const std::string requests_sql =
      Concat("SELECT r.id,", kFleetOrderColumns, " FROM ", ledger_.tables.requests, " r LEFT JOIN ",
             ledger_.tables.orders, " o ON o.order_id=r.order_id LEFT JOIN ", ledger_.tables.order_lines,
             " l ON l.order_id=o.order_id WHERE r.id IN (", absl::StrJoin(ids, ","), ") LIMIT ", kMostLinesLooked);
  using Requests = std::vector<std::tuple<FleetHash, std::optional<FleetOrderColumns>>>;
  Requests early;
  if (!FleetRules::LooksOnce()) {
    (void)writer.Read(requests_sql, MySqlInto(early));
    Pause(FleetPause::kLookReplied);
  }
  FleetSkuTable sku_table;
  std::vector<std::tuple<uint64_t, FleetHash, int64_t>> buyer_table;
  Requests requests;
  std::vector<uint64_t> forgotten;
  const Instant sent = clock_.Now();
  const MySqlReply reply =
      writer.Read(Concat(FleetSkusQuery(ledger_.tables, Concat("s.sku_id IN (", absl::StrJoin(skus, ","), ")")),
                         ";SELECT sku_id,buyer,units FROM ", ledger_.tables.buyers, " WHERE ",
                         buyers_sql.empty() ? "FALSE" : buyers_sql, ";", requests_sql, ";SELECT fingerprint FROM ",
                         ledger_.tables.forgotten, " WHERE ", InImported(calls), ";SELECT ", kFleetNow),
                  MySqlInto(sku_table, buyer_table, requests, forgotten, looked.now));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  AddFleetSkus(sku_table, looked.skus);
  NoteLatches(looked.skus, sent);
  for (const auto& [sku, buyer, units] : buyer_table) {
    looked.buyer_units[{sku, buyer}] = std::clamp<int64_t>(units, 0, kMaxUnits);
  }
  for (const auto& [request, row] : FleetRules::LooksOnce() ? requests : early) {
    std::optional<FleetOrderRow>& order = looked.orders[request];
    if (!row.has_value()) continue;
    if (!order.has_value()) order.emplace();
    order->Add(*row);
  }
  for (const uint64_t fingerprint : forgotten) {
    for (const auto& call : calls) {
      if (call->imported_fingerprint == fingerprint) looked.orders.try_emplace(call->request);
    }
  }
  for (const auto& [id, row] : looked.skus) looked.units_left[id] = row.units;
  looked.is_cut = requests.size() >= kMostLinesLooked;
  return true;
}

void FleetCore::Judge(std::unique_ptr<FleetGrantCall> call, Looked& looked, FleetGrants& trying, FleetGrants& later) {
  if (const auto found = looked.orders.find(call->request); found != looked.orders.end()) {
    looked.found_repeat = true;
    if (!found->second.has_value()) return Answer(*call, checks_.Forgotten(call->request_id));
    return AnswerRepeat(std::move(call), *found->second, looked.now);
  }
  const auto row_of = [&](size_t line) -> const FleetSkuRow* {
    const auto row = looked.skus.find(call->skus[line]);
    if (row == looked.skus.end() || row->second.removed || row->second.name != call->lines[line].sku) return nullptr;
    return &row->second;
  };
  // In the order that Inventory states: the buyer, unknown SKUs, units.
  bool is_first = true;  // Nothing before it in this packet stands in its way.
  for (size_t i = 0; i < call->lines.size(); ++i) {
    const FleetSkuRow* const row = row_of(i);
    if (row == nullptr || row->per_buyer_limit == 0) continue;
    const OrderLine& line = call->lines[i];
    if (call->buyer.empty()) return Answer(*call, checks_.MissingBuyer(call->request_id, line.sku));
    const std::pair key(call->skus[i], call->buyer_hash);
    const auto known = looked.buyer_units.find(key);
    const int64_t has = known == looked.buyer_units.end() ? 0 : known->second;
    if (line.quantity > row->per_buyer_limit - has) {
      return Answer(*call, checks_.OverBuyerLimit(call->buyer, has, {.sku = line.sku, .quantity = line.quantity},
                                                  row->per_buyer_limit));
    }
    is_first &= line.quantity <= row->per_buyer_limit - has - looked.taken_by_buyer[key];
  }
  for (size_t i = 0; i < call->lines.size(); ++i) {
    const FleetSkuRow* const row = row_of(i);
    if (row == nullptr) return Answer(*call, checks_.UnknownSku(call->lines[i].sku));
    if (absl::Status whole = CheckWhole(*row); !whole.ok()) return Answer(*call, std::move(whole));
  }
  for (size_t i = 0; i < call->lines.size(); ++i) {
    const OrderLine& line = call->lines[i];
    const FleetSkuRow& row = *row_of(i);
    if (line.quantity > row.UnitsForSale()) {
      looked.short_skus.insert(call->skus[i]);
      return Answer(*call, checks_.Short({.sku = line.sku, .quantity = line.quantity}, row.unsold()));
    }
    is_first &= line.quantity <= looked.units_left[call->skus[i]];
  }
  if (!is_first) {
    call->look = true;
    later.push_back(std::move(call));
    return;
  }
  for (size_t i = 0; i < call->lines.size(); ++i) {
    looked.units_left[call->skus[i]] -= call->lines[i].quantity;
    looked.taken_by_buyer[{call->skus[i], call->buyer_hash}] += call->lines[i].quantity;
  }
  call->look = false;
  trying.push_back(std::move(call));
}

void FleetCore::AnswerRepeat(std::unique_ptr<FleetGrantCall> call, const FleetOrderRow& order, int64_t now) {
  if (absl::Status whole = CheckWhole(order); !whole.ok()) return Answer(*call, std::move(whole));
  if (absl::Status same = CheckSame(*call, order); !same.ok()) return Answer(*call, std::move(same));
  if (order.state == OrderState::kHeld && order.at <= now) {
    if (++call->surprises > call->max_surprises) return Answer(*call, TooManySurprises());
    // The answer will say that it has expired, so the ledger has to say it first.
    auto expiry = std::make_unique<FleetEndCall>();
    expiry->start = call->start;
    expiry->id = order.id;
    expiry->to = OrderState::kExpired;
    expiry->done = [this, call = std::move(call)](const absl::Status&) mutable {
      call->look = true;
      Enqueue(&Queues::grants, std::move(call));
    };
    return Enqueue(&Queues::ends, std::move(expiry));
  }
  metrics_.Add(kRepeats);
  Answer(*call,
         FleetGrant{.id = order.id, .state = order.state, .expires_at = ExpiresAt(order.created_at, order.ttl_us)});
}

absl::Status FleetCore::CheckSame(const FleetGrantCall& call, const FleetOrderRow& order) const {
  const auto differs = [&](std::string_view what) { return checks_.Mismatch(call.request_id, what); };
  if (call.kind != order.kind) return differs(RequestChecks::kCallKind);
  if (call.buyer_hash != order.buyer) return differs("buyer");
  std::map<uint64_t, int64_t> lines;
  for (size_t i = 0; i < call.lines.size(); ++i) lines[call.skus[i]] = call.lines[i].quantity;
  const auto same_sku = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::ranges::equal(lines, order.lines, same_sku)) return differs("sku");
  if (lines != order.lines) return differs("quantity");
  if (call.kind != OrderKind::kTake && TtlUs(call.ttl) != order.ttl_us) return differs("ttl");
  return absl::OkStatus();
}

void FleetCore::NoteLook(Lane& lane, const Looked& looked) {
  const MutexLock lock(mutex_);
  for (const auto& [id, row] : looked.skus) {
    if (row.removed) {
      skus_.erase(id);
      lane.shares.erase(id);
      continue;
    }
    Sku& sku = skus_[id];
    sku.per_buyer_limit = row.per_buyer_limit;
    sku.segments = std::max<int32_t>(static_cast<int32_t>(row.segment_units.size()), 1);
    sku.scarce = looked.short_skus.contains(id);
    sku.has_nodes = row.has_nodes;
    if (dispenser_ != nullptr && !row.nodes.empty()) {
      const auto own_node = row.nodes.find(dispenser_->segment(NodeOf(lane)));
      if (own_node != row.nodes.end()) lane.shares[id].End(own_node->second.fence - 1);
    }
    if (!CheckWhole(row).ok()) continue;
    const int64_t own = row.segment_units[static_cast<size_t>(lane.index % sku.segments)];
    if (own >= options_.max_batch) sku.merged = false;
    // Of the units that there are, what the requests to be tried want.
    const int64_t wanted = row.units - looked.units_left.at(id);
    if (row.segment_units[static_cast<size_t>(SegmentOf(sku, lane))] >= wanted) continue;
    lane.merging.insert(id);
    sku.merged = true;
  }
}

// What requests that are tried together write.
struct FleetCore::Trial {
  struct Payment {
    int64_t held = 0;
    int64_t sold = 0;
    Sku sku = {};
  };
  std::map<uint64_t, Payment> payments = {};  // By SKU.
  // Units and limit, by SKU and buyer, of SKUs with one.
  std::map<std::pair<uint64_t, FleetHash>, std::pair<int64_t, int64_t>> buyers = {};
  // Rows of the tables, as SQL.
  std::string requests = {};
  std::string orders = {};
  std::string lines = {};

  static std::string& Next(std::string& rows) { return rows += rows.empty() ? "" : ","; }
  void Add(const FleetGrantCall& call, OrderId id);
};

void FleetCore::Trial::Add(const FleetGrantCall& call, OrderId id) {
  const bool holds = call.kind != OrderKind::kTake;
  const bool basket = call.kind == OrderKind::kBasket;
  const std::string request = FleetHashLiteral(call.request);
  Next(requests) += Concat("(", request, ",", id, ")");
  const int64_t ttl_us = TtlUs(call.ttl);
  Next(orders) += Concat("(", id, ",@fence,", request, ",", basket ? 0 : call.skus[0], ",",
                         basket ? 0 : call.lines[0].quantity, ",", FleetHashLiteral(call.buyer_hash), ",",
                         static_cast<int>(call.kind), ",", holds ? 0 : 1, ",@now,", ttl_us, ",");
  orders += !holds ? "@now)" : ttl_us == kNever ? Concat(kNever, ")") : Concat("@now+", ttl_us, ")");
  for (size_t k = 0; k < call.lines.size(); ++k) {
    const int64_t quantity = call.lines[k].quantity;
    Payment& payment = payments.at(call.skus[k]);
    (holds ? payment.held : payment.sold) += quantity;
    if (payment.sku.per_buyer_limit != 0) {
      auto& [units, limit] = buyers[{call.skus[k], call.buyer_hash}];
      units += quantity;
      limit = payment.sku.per_buyer_limit;
    }
    if (basket) Next(lines) += Concat("(", id, ",", call.skus[k], ",", quantity, ")");
  }
}

bool FleetCore::Try(Lane& lane, FleetGrants calls) {
  if (absl::Status ready = lane.writer.Prepare(); !ready.ok()) {
    NoteHealth(ready);
    PutBack(&Queues::grants, std::move(calls));
    return false;
  }
  std::ranges::sort(calls, {}, [](const auto& call) { return call->request; });
  const OrderId first = lane.writer.NextOrders(calls.size());
  Trial trial;
  {
    const MutexLock lock(mutex_);
    for (const auto& call : calls) {
      for (const uint64_t sku : call->skus) trial.payments[sku].sku = skus_[sku];
    }
  }
  for (size_t i = 0; i < calls.size(); ++i) trial.Add(*calls[i], first + i);

  std::map<uint64_t, int64_t> wanted;
  for (const auto& [id, payment] : trial.payments) {
    const bool asks = dispenser_ != nullptr && payment.sku.has_nodes && !lane.merging.contains(id);
    if (asks) wanted[id] = payment.held + payment.sold;
  }
  const NodePayments from_node = wanted.empty() ? NodePayments() : AskNode(lane, wanted);
  std::vector<uint64_t> skus;
  const FleetOutcome outcome = RunUntilKnown(lane.writer, GrantsPacket(lane, calls, trial, from_node, skus));
  NoteSize(lane, LinesOf(calls), outcome);
  if (outcome.kind != FleetOutcome::Kind::kDone) return TryFailed(lane, std::move(calls), outcome, skus, from_node);
  if (outcome.now == 0) {
    // Committed, but the reply was lost: when, only the rows say.
    for (auto& call : calls) call->look = call->in_doubt = true;
    PutBack(&Queues::grants, std::move(calls));
    return true;
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    FleetGrantCall& call = *calls[i];
    const bool holds = call.kind != OrderKind::kTake;
    metrics_.Add(holds ? kReservations : kTakes);
    Answer(call, FleetGrant{.id = first + i,
                            .state = holds ? OrderState::kHeld : OrderState::kSold,
                            .expires_at = holds ? ExpiresAt(outcome.now, TtlUs(call.ttl)) : absl::InfiniteFuture()});
  }
  return true;
}

FleetPacket FleetCore::GrantsPacket(Lane& lane, const FleetGrants& calls, const Trial& trial,
                                    const NodePayments& from_node, std::vector<uint64_t>& skus) const {
  FleetPacket packet;
  if (ledger_.keys.imported.has_value()) {
    packet.Add(Concat("SELECT COUNT(*) INTO @forgotten FROM ", ledger_.tables.forgotten, " WHERE ", InImported(calls)),
               kRequests);
    packet.AddCondition("@forgotten=0", kRequests);
  }
  packet.Add(Concat("INSERT INTO ", ledger_.tables.requests, " (id,order_id) VALUES ", trial.requests), kRequests);
  if (!trial.buyers.empty()) {
    std::string rows;
    for (const auto& [key, value] : trial.buyers) {
      Trial::Next(rows) +=
          Concat("(", key.first, ",", FleetHashLiteral(key.second), ",", value.first, ",", value.second, ")");
    }
    packet.Add(Concat("INSERT INTO ", ledger_.tables.buyers, " (sku_id,buyer,units,most) VALUES ", rows,
                      " ON DUPLICATE KEY UPDATE units=units+VALUES(units)"),
               kBuyers);
  }
  packet.Add(
      Concat("INSERT INTO ", ledger_.tables.orders,
             " (order_id,fence,request,sku_id,quantity,buyer,kind,state,created_at,ttl_us,at) VALUES ", trial.orders),
      kOrders);
  if (!trial.lines.empty()) {
    packet.Add(Concat("INSERT INTO ", ledger_.tables.order_lines, " (order_id,sku_id,quantity) VALUES ", trial.lines),
               kOrderLines);
  }
  for (const auto& [id, payment] : trial.payments) {
    const size_t tag = kStock + skus.size();
    skus.push_back(id);
    const int64_t units = payment.held + payment.sold;
    const std::string ordered = Concat(",held=held+", payment.held, ",sold=sold+", payment.sold, " WHERE sku_id=", id);
    if (lane.merging.erase(id) > 0) {
      if (const auto share = lane.shares.find(id); share != lane.shares.end()) {
        share->second.End(share->second.generation);
      }
      packet.Add(Concat("SELECT SUM(units) INTO @units FROM ", ledger_.tables.stock, kByKey, " WHERE sku_id=", id,
                        " FOR UPDATE"),
                 tag);
      packet.AddGuarded(Concat("UPDATE ", ledger_.tables.stock, " SET units=@units-", units, ordered, " AND segment=0"),
                        1, tag);
      packet.Add(Concat("UPDATE ", ledger_.tables.stock, kByKey, " SET units=0,fence=fence+(segment>=",
                        kFirstNodeSegment, ") WHERE sku_id=", id, " AND segment>0"),
                 tag);
      continue;
    }
    const auto node = from_node.find(id);
    std::string left = Concat("units-", units);
    std::string segment = Concat(SegmentOf(payment.sku, lane));
    if (node != from_node.end()) {
      segment = Concat(dispenser_->segment(NodeOf(lane)), " AND fence=", node->second.generation);
      if (!FleetRules::ChecksNodeRow()) {
        segment = Concat(dispenser_->segment(NodeOf(lane)));
        left = Concat("GREATEST(", left, ",0)");
      }
    }
    packet.AddGuarded(Concat("UPDATE ", ledger_.tables.stock, " SET units=", left, ordered, " AND segment=", segment),
                      1, tag);
  }
  return packet;
}

// Nothing has changed, or nobody knows.
bool FleetCore::TryFailed(Lane& lane, FleetGrants calls, const FleetOutcome& outcome, std::span<const uint64_t> skus,
                          const NodePayments& from_node) {
  using Kind = FleetOutcome::Kind;
  if (outcome.kind == Kind::kUnknown) {
    for (auto& call : calls) Answer(*call, InDoubt(outcome.status));
    return false;
  }
  const bool of_stock = outcome.kind == Kind::kSurprise && outcome.tag >= kStock;
  const uint64_t sku = of_stock ? skus[outcome.tag - kStock] : 0;
  NoteUnpaid(lane, from_node, sku);
  if (outcome.kind != Kind::kSurprise) return PutBackUndone(&Queues::grants, std::move(calls), outcome);
  if (outcome.tag == kRequests) lane.look_batches = kLooksAfterRepeat;
  if (outcome.tag == kOrders || outcome.tag == kOrderLines) lane.writer.Renew();  // Its ids are taken.
  if (of_stock && !from_node.contains(sku)) {
    const MutexLock lock(mutex_);
    Sku& known = skus_[sku];
    known.merged = known.segments > 1 || known.has_nodes;
    if (known.merged) lane.merging.insert(sku);
  }
  for (auto& call : calls) {
    call->look |= outcome.tag < kOrders || (of_stock && std::ranges::count(call->skus, sku) > 0);
  }
  TryAgain(&Queues::grants, std::move(calls));
  return true;
}

void FleetCore::Answer(FleetGrantCall& call, absl::StatusOr<FleetGrant> grant) {
  if (grant.ok()) {
    metrics_.ObserveSpan(kReserveSeconds, call.start, clock_.Now());
  } else {
    const Refusal refusal = RefusalOf(grant.status());
    metrics_.Add(RefusalMetric(refusal));
    if (refusal == Refusal::kSoldOut || refusal == Refusal::kAllHeld) fleet_metrics_.Add(kRefusedByLedger);
    return call.done(std::move(grant).status());
  }
  call.asker->Make({.id = grant->id,
                    .state = grant->state,
                    .expires_at = grant->expires_at,
                    .request_id = call.request_id,
                    .buyer = call.buyer,
                    .sku = call.lines[0].sku,
                    .quantity = call.lines[0].quantity,
                    .lines = call.kind == OrderKind::kBasket ? call.lines : std::vector<OrderLine>()});
  call.done(absl::OkStatus());
}

}  // namespace stockade::inventory_internal
