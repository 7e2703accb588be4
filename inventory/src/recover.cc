// How an inventory takes over what its ledger holds.

#include <algorithm>
#include <map>

#include "local_core.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;

// How long a record may be on its way into the ledger without being refused.
constexpr absl::Duration kLatestRecord = absl::Minutes(1);

absl::Status CheckShape(const LedgerState::Order& order) {
  if (order.kind == Kind::kReserveBasket ? order.lines.empty() : order.lines.size() != 1) {
    return absl::DataLossError(Concat(" has ", order.lines.size(), " lines"));
  }
  if (IsGrant(order.kind) && (order.kind != Kind::kTake || order.state == OrderState::kSold)) return absl::OkStatus();
  return absl::DataLossError(" has a kind and a state to which no grant leads");
}

}  // namespace

absl::Status LocalCore::Recover() {
  if (ledger_ != nullptr) {
    if (absl::Status recovered = RecoverFromLedger(); !recovered.ok()) return recovered;
  }
  reaper_ = std::make_unique<Reaper>(clock_, orders_, [this] { return ExpireDue(); });
  absl::Status started = reaper_->Start();
  if (started.ok()) return started;
  return absl::Status(started.code(), Concat("Inventory '", name_, "': ", started.message()));
}

absl::Status LocalCore::RecoverFromLedger() {
  if (absl::Status healthy = Health(); !healthy.ok()) return healthy;
  LedgerState state = ledger_->TakeRecovered();
  // A call that finds an order at the end of its retention appends a record of it afterwards.
  ledger_->SetRetention(retention_ + std::min(retention_, kLatestRecord));
  if (absl::Status recovered = RecoverForgotten(state); !recovered.ok()) return recovered;
  const absl::StatusOr<Returns> returns = RecoverReturns(state);
  if (!returns.ok()) return returns.status();
  std::map<std::string, int64_t, std::less<>> taken;
  for (const LedgerState::Order& order : state.orders) {
    if (absl::Status shaped = CheckShape(order); !shaped.ok()) {
      return absl::DataLossError(Concat("Inventory '", name_, "': order ", order.order_id, shaped.message()));
    }
    for (const OrderLine& line : order.lines) {
      const bool takes_units = IsOfOrders(AccountOf(order.state));
      const int64_t takes = takes_units ? line.quantity - returns->units.OfLine(order.order_id, line.sku) : 0;
      if (line.quantity < 1 || __builtin_add_overflow(taken[line.sku], takes, &taken[line.sku])) {
        return absl::DataLossError(
            Concat("Inventory '", name_, "': order ", order.order_id, " has ", line.quantity, " units"));
      }
    }
  }
  for (const LedgerState::Sku& sku : state.skus) {
    int64_t& of_sku = taken[sku.sku];
    if (sku.sold_forgotten < 0 || __builtin_add_overflow(of_sku, sku.sold_forgotten, &of_sku)) {
      return absl::DataLossError(
          Concat("Inventory '", name_, "': SKU '", sku.sku, "' has sold_forgotten = ", sku.sold_forgotten));
    }
    if (absl::Status added = RecoverSku(sku, of_sku); !added.ok()) return added;
  }
  std::map<std::string, int64_t, std::less<>> without_buyer;  // Units that forgotten orders have sold.
  for (const LedgerState::Sku& sku : state.skus) without_buyer[sku.sku] = sku.sold_forgotten;
  for (const LedgerState::Bought& bought : state.bought) {
    if (absl::Status added = RecoverBought(bought, without_buyer[bought.sku]); !added.ok()) return added;
  }
  std::vector<LedgerState::Order> others;  // That are no orders.
  others.reserve(state.restocks.size() + state.changes.size());
  for (auto& [order_id, request_id, sku, quantity, at] : state.restocks) {
    if (quantity < 1) {
      return absl::DataLossError(Concat("Inventory '", name_, "': restock ", order_id, " has ", quantity, " units"));
    }
    others.push_back({.order_id = order_id,
                      .kind = Kind::kRestock,
                      .request_id = std::move(request_id),
                      .lines = {{.sku = std::move(sku), .quantity = quantity}},
                      .state = OrderState::kSold,
                      .ended_at = at});
  }
  for (const LedgerState::Change& change : state.changes) {
    LedgerState::Order& as_order = others.emplace_back(LedgerState::Order{.order_id = change.change_id,
                                                                          .kind = change.kind,
                                                                          .request_id = change.request_id,
                                                                          .state = OrderState::kSold,
                                                                          .ended_at = change.at});
    for (const auto& [sku, quantity, to_stock] : change.lines) as_order.lines.push_back({sku, quantity});
  }
  // As they ended, which is the order in which they are forgotten.
  std::vector<LedgerState::Order*> ended;
  ended.reserve(state.orders.size() + others.size());
  for (LedgerState::Order& other : others) ended.push_back(&other);
  for (LedgerState::Order& order : state.orders) ended.push_back(&order);
  std::ranges::stable_sort(ended, {}, &LedgerState::Order::ended_at);
  const Instant now = clock_->Now();
  const absl::Time wall = clock_->WallNow();
  for (LedgerState::Order* const order : ended) {
    if (absl::Status added = RecoverOrder(*order, *returns, now, wall); !added.ok()) return added;
  }
  return absl::OkStatus();
}

absl::StatusOr<LocalCore::Returns> LocalCore::RecoverReturns(LedgerState& state) const {
  absl::StatusOr<ReturnedUnits> units = ReturnedUnits::Of(state.orders, state.changes);
  if (!units.ok()) return absl::DataLossError(Concat("Inventory '", name_, "': ", units.status().message()));
  Returns returns{.units = *std::move(units)};
  for (const LedgerState::Change& change : state.changes) {
    LedgerState::Order& order =
        *std::ranges::lower_bound(state.orders, change.order_id, {}, &LedgerState::Order::order_id);
    order.ended_at = std::max(order.ended_at, change.at);
    returns.by_id[change.change_id] = &change;
  }
  return returns;
}

absl::Status LocalCore::RecoverForgotten(const LedgerState& state) {
  if (!state.fingerprint_key.has_value()) {
    if (state.forgotten.empty() && state.last_forgotten_id == 0) return absl::OkStatus();
    return absl::DataLossError(Concat("Inventory '", name_, "': there are forgotten orders, but no fingerprint key"));
  }
  absl::Status taken = orders_.TakeOver(*state.fingerprint_key, state.forgotten, state.last_forgotten_id);
  if (taken.ok()) return taken;
  return absl::DataLossError(
      Concat("Inventory '", name_, "': last forgotten order ", state.last_forgotten_id, ": ", taken.message()));
}

absl::Status LocalCore::RecoverSku(const LedgerState::Sku& sku, int64_t taken) {
  const SkuOptions options{.stock = sku.granted, .shards = sku.shards, .per_buyer_limit = sku.per_buyer_limit};
  absl::Status valid = options.Validate();
  if (valid.ok() && taken > sku.granted) {
    valid = absl::DataLossError(Concat(taken, " units are held or sold, but only ", sku.granted, " were granted"));
  }
  if (valid.ok() && sku.removed && taken < sku.granted) {
    valid = absl::DataLossError(Concat("it was removed, but ", sku.granted - taken, " units are for sale"));
  }
  if (!valid.ok()) {
    return absl::DataLossError(Concat("Inventory '", name_, "': SKU '", sku.sku, "': ", valid.message()));
  }
  Item* item;
  {
    const MutexLock lock(catalogue_mutex_);
    item = InsertItem(sku.sku, options, sku.granted, sku.granted - taken);
    if (item != nullptr && sku.removed) item->stock = nullptr;
  }
  if (item == nullptr) {
    return absl::DataLossError(Concat("Inventory '", name_, "': SKU '", sku.sku, "' is in the ledger twice"));
  }
  item->Move({Account::kAvailable, Account::kSold}, sku.sold_forgotten);
  checks_.RaiseMaxSkuBytes(sku.sku.size());
  if (!sku.removed) AddSkuGauges(*item);
  return absl::OkStatus();
}

absl::Status LocalCore::RecoverBought(const LedgerState::Bought& bought, int64_t& without_buyer) {
  const Item* const item = FindItem(bought.sku);
  if (item == nullptr || bought.units < 1 || bought.units > without_buyer) {
    return absl::DataLossError(Concat(
        "Inventory '", name_, "': buyer '", bought.buyer, "' has bought ", bought.units, " units of SKU '", bought.sku,
        "'",
        item == nullptr ? ", which is unknown" : Concat(", of which ", without_buyer, " were sold to buyers of old")));
  }
  without_buyer -= bought.units;
  if (!item->counts_buyers()) return absl::OkStatus();
  const BuyerBook::Lock lock = LockBuyer(true, bought.buyer);
  buyers_.MakeRoom(*item, bought.buyer);
  buyers_.Add(*item, bought.buyer, bought.units);
  return absl::OkStatus();
}

absl::Status LocalCore::RecoverOrder(LedgerState::Order& order, const Returns& returns, Instant now, absl::Time wall) {
  const bool is_order = IsGrant(order.kind);
  const auto damaged = [&](const auto& what) {
    const std::string_view kind = is_order ? "order" : order.kind == Kind::kRestock ? "restock" : "return";
    return absl::DataLossError(Concat("Inventory '", name_, "': ", kind, " ", order.order_id, ": ", what));
  };
  ItemLines lines;
  for (const OrderLine& line : order.lines) {
    lines.push_back({.item = FindItem(line.sku),
                     .quantity = line.quantity,
                     .returned = is_order ? returns.units.OfLine(order.order_id, line.sku) : 0});
    if (lines.back().item == nullptr) return damaged("its SKU is not in the ledger");
  }
  const auto sku_of = [](const ItemLine& line) { return std::string_view(line.item->sku); };
  std::ranges::sort(lines, {}, sku_of);
  if (const auto twice = std::ranges::adjacent_find(lines, {}, sku_of); twice != lines.end()) {
    return damaged(Concat("it has SKU '", twice->item->sku, "' twice"));
  }
  if (order.extended < absl::ZeroDuration()) {
    return damaged(Concat("it is extended by ", absl::FormatDuration(order.extended)));
  }
  const bool runs = order.state == OrderState::kHeld;
  // By the wall clock, which may have been set meanwhile: but never longer than the buyer was promised.
  const absl::Duration promised = order.ttl + order.extended;
  const absl::Duration left =
      std::max(absl::ZeroDuration(), std::min(order.expires_at + order.extended - wall, promised));
  const absl::Duration since_end = std::max(absl::ZeroDuration(), wall - order.ended_at);
  const uint64_t fingerprint = orders_.FingerprintOf(order.request_id);
  auto record =
      std::make_shared<OrderRecord>(OrderRecord{.id = order.order_id,
                                                .fingerprint = fingerprint,
                                                .kind = order.kind,
                                                .lines = std::move(lines),
                                                .request_id = std::move(order.request_id),
                                                .buyer = std::move(order.buyer),
                                                .ttl = order.ttl,
                                                .expires_at = order.expires_at,
                                                .deadline = runs ? now + left : Instant::InfiniteFuture(),
                                                .extended = order.extended,
                                                .state = order.state,
                                                .ended_at = runs ? Instant::InfiniteFuture() : now - since_end});
  if (const auto found = returns.by_id.find(order.order_id); !is_order && found != returns.by_id.end()) {
    auto change =
        std::make_unique<OrderChange>(OrderChange{.order = found->second->order_id, .of_all = found->second->of_all});
    // The lines were sorted.
    for (const ItemLine& line : record->lines) {
      change->to_stock.push_back(std::ranges::find(found->second->lines, line.item->sku, &ReturnedLine::sku)->to_stock);
    }
    record->change = std::move(change);
  }
  const BuyerBook::Lock buyer_lock = LockBuyer(record->has_buyer_limit(), record->buyer);
  OrderBook::Stripe& stripe = orders_.StripeOf(fingerprint);
  const MutexLock lock(stripe.mutex);
  if (is_order && IsOfOrders(AccountOf(order.state))) {
    MakeRoomForBuyer(*record);
    CountTaken(*record);
  }
  if (absl::Status added = orders_.AddRecovered(stripe, record, now); !added.ok()) return damaged(added.message());
  return absl::OkStatus();
}

}  // namespace stockade::inventory_internal
