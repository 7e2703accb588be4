#include "journal_replay.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string_view>

#include "ledger_names.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;

bool IsOfSku(Kind kind) { return kind == Kind::kAddSku || kind == Kind::kRestock || kind == Kind::kRemoveSku; }

bool IsGrant(Kind kind) { return kind == Kind::kReserve || kind == Kind::kTake || kind == Kind::kReserveBasket; }

bool IsOf(const LedgerState::Order& order, const JournalRow& row) {
  if (row.basket || !order.lines.empty()) return row.basket && order.lines == row.lines;
  return order.sku == row.lines[0].sku && order.quantity == row.lines[0].quantity;
}

}  // namespace

absl::Status JournalReplay::Begin() {
  const auto bad = [](const auto&... what) { return absl::DataLossError(Concat("start of the journal: ", what...)); };
  std::map<std::string_view, int64_t> sold;
  for (const LedgerState::Sku& sku : shown_.skus) sold.emplace(sku.sku, sku.sold_forgotten);
  for (const ReplayStart::Sku& sku : start_.skus) {
    const int64_t available = sku.granted - sold[sku.sku];
    if (available < 0) return bad("SKU '", sku.sku, "' has ", sku.granted, " granted, but more units are sold");
    book_.Begin(sku.sku, {.granted = sku.granted, .available = available, .removed = false});
  }
  for (size_t i = 0; i < shown_.orders.size(); ++i) {
    if (start_.granted_at[i] > start_.position) continue;
    // It has not ended there, or it were gone.
    const LedgerState::Order& order = shown_.orders[i];
    states_[i] = OrderState::kHeld;
    const OrderLine single{.sku = order.sku, .quantity = order.quantity};
    const std::span<const OrderLine> lines = order.lines.empty() ? std::span(&single, 1) : std::span(order.lines);
    for (const OrderLine& line : lines) {
      const absl::Status taken = book_.Take(line.sku, line.quantity).status();
      if (!taken.ok()) return bad("order ", order.order_id, ": ", taken.message());
    }
  }
  for (const ReplayStart::Sku& sku : start_.skus) {
    if (const int64_t left = book_.Find(sku.sku)->available; left != sku.available) {
      return bad("SKU '", sku.sku, "': start_available is ", sku.available, ", but start_granted ", sku.granted,
                 " less sold_forgotten ", sold[sku.sku], " less the units held there is ", left);
    }
    if (!sku.removed) continue;
    // All that it had left is gone with it.
    if (absl::Status removed = book_.Remove(sku.sku, 0).status(); !removed.ok()) return bad(removed.message());
  }
  book_.Keep();
  return absl::OkStatus();
}

absl::Status JournalReplay::Apply(const JournalRow& row) {
  if (row.position != last_position_ + 1) {
    return absl::DataLossError(Concat("journal: position ", last_position_ + 1, " is missing"));
  }
  last_position_ = row.position;
  absl::Status status = IsOfSku(row.kind) ? ApplyToSku(row) : ApplyToOrder(row);
  book_.Keep();
  if (status.ok()) return status;
  return absl::DataLossError(
      Concat("journal: position ", row.position, " (", KindName(row.kind), "): ", status.message()));
}

const LedgerState::Order* JournalReplay::FindOrder(uint64_t order_id) const {
  const std::vector<LedgerState::Order>& orders = shown_.orders;
  if (orders.empty() || order_id < orders.front().order_id || order_id > orders.back().order_id) return nullptr;
  // Ids ascend, nearly without gaps: an order is left of where it would be without any, by no more than there are.
  const uint64_t gaps = orders.back().order_id - orders.front().order_id + 1 - orders.size();
  const uint64_t most = order_id - orders.front().order_id;
  const std::span<const LedgerState::Order> among(orders.data() + (most - std::min(most, gaps)),
                                                  orders.data() + std::min<uint64_t>(most + 1, orders.size()));
  const auto found = std::ranges::lower_bound(among, order_id, {}, &LedgerState::Order::order_id);
  return found != among.end() && found->order_id == order_id ? &*found : nullptr;
}

absl::Status JournalReplay::ApplyToSku(const JournalRow& row) {
  const OrderLine& line = row.lines[0];
  if (row.kind == Kind::kAddSku) return book_.Add(line.sku, line.quantity).status();
  if (row.kind == Kind::kRemoveSku) return book_.Remove(line.sku, line.quantity).status();
  if (absl::Status checked = CheckRestock(row); !checked.ok()) return checked;
  return book_.Restock(line.sku, line.quantity).status();
}

absl::Status JournalReplay::CheckRestock(const JournalRow& row) {
  if (row.order_id == 0) return absl::OkStatus();
  const auto differs = [&](std::string_view what) {
    return absl::DataLossError(Concat("restock ", row.order_id, " ", what));
  };
  if (next_restock_ == shown_.restocks.size()) return differs("is not in the table of restocks");
  const LedgerState::Restock& restock = shown_.restocks[next_restock_];
  if (restock.order_id != row.order_id || start_.restocked_at[next_restock_] != row.position) {
    return differs("is not the next one in the table of restocks");
  }
  if (restock.sku != row.lines[0].sku || restock.quantity != row.lines[0].quantity) {
    return differs("has other units in the table of restocks");
  }
  if (restock.at != absl::FromUnixMicros(row.at_us)) return differs("has another time in the table of restocks");
  ++next_restock_;
  return absl::OkStatus();
}

absl::Status JournalReplay::ApplyToOrder(const JournalRow& row) {
  const auto differs = [&](std::string_view what) {
    return absl::DataLossError(Concat("order ", row.order_id, " ", what));
  };
  const LedgerState::Order* const found = FindOrder(row.order_id);
  if (found == nullptr) return differs("is not in the table of orders");
  const LedgerState::Order& order = *found;
  if (!IsOf(order, row)) return differs("has other units in the table of orders");

  const auto index = static_cast<size_t>(found - shown_.orders.data());
  std::optional<OrderState>& state = states_[index];
  const OrderState after = StateAfter(row.kind);
  if (IsGrant(row.kind)) {
    if (state.has_value()) return differs("is granted twice");
    if (start_.granted_at[index] != row.position) return differs("has another position in the table of orders");
    if (order.reserved == (row.kind == Kind::kTake)) return differs("has another kind in the table of orders");
    for (const OrderLine& line : row.lines) {
      if (absl::Status taken = book_.Take(line.sku, line.quantity).status(); !taken.ok()) return taken;
    }
  } else {
    if (state != OrderState::kHeld) return differs("is not held");
    for (const OrderLine& line : row.lines) {
      if (after == OrderState::kSold) break;
      if (absl::Status given = book_.GiveBack(line.sku, line.quantity).status(); !given.ok()) return given;
    }
  }
  state = after;
  if (after != OrderState::kHeld && order.ended_at != absl::FromUnixMicros(row.at_us)) {
    return differs("ended at another time in the table of orders");
  }
  return absl::OkStatus();
}

absl::Status JournalReplay::Finish() const {
  for (size_t i = 0; i < states_.size(); ++i) {
    const LedgerState::Order& order = shown_.orders[i];
    if (states_[i] == order.state) continue;
    const std::string_view by_journal = states_[i].has_value() ? StateName(*states_[i]) : "unknown";
    return absl::DataLossError(Concat("order ", order.order_id, " is ", StateName(order.state), ", but ", by_journal,
                                      " according to the journal"));
  }
  if (next_restock_ != shown_.restocks.size()) {
    return absl::DataLossError(Concat("restock ", shown_.restocks[next_restock_].order_id, " is not in the journal"));
  }
  for (const LedgerState::Sku& sku : shown_.skus) {
    const SkuStock* const stock = book_.Find(sku.sku);
    if (stock == nullptr) return absl::DataLossError(Concat("SKU '", sku.sku, "' is not in the journal"));
    if (stock->removed != sku.removed) {
      return absl::DataLossError(Concat("SKU '", sku.sku, "' is ",
                                        sku.removed ? "removed, but not" : "not removed, but removed",
                                        " according to the journal"));
    }
    if (stock->granted != sku.granted) {
      return absl::DataLossError(
          Concat("SKU '", sku.sku, "': ", sku.granted, " granted, but ", stock->granted, " according to the journal"));
    }
  }
  if (book_.size() != shown_.skus.size()) {
    return absl::DataLossError("journal: it names a SKU that is not in the table of SKUs");
  }
  return absl::OkStatus();
}

}  // namespace stockade::inventory_internal
