// What a ledger holds, held against what was heard.

#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "inventory/crash/witness.h"

namespace stockade::testing {
void Witness::Inspect(const LedgerContents& contents) {
  ++inspections_;
  for (auto& [sku, stock] : stock_) stock.sold = 0;
  for (const LedgerContents::Order& order : contents.orders) InspectOrder(order);
  InspectMissing();
  InspectStock(contents.skus);
}

void Witness::InspectOrder(const LedgerContents::Order& row) {
  if (row.key.round >= begun_.size()) return Complain(row.key, "is of a round that is still to come");
  const Plan plan = PlanOf(world_, row.key);
  const bool reserved = plan.call != Plan::Call::kTake;
  const int64_t ttl_us = plan.ttl == absl::InfiniteDuration() ? -1 : absl::ToInt64Microseconds(plan.ttl);
  if (std::tie(row.lines, row.buyer, row.reserved, row.ttl_us) != std::tie(plan.lines, plan.buyer, reserved, ttl_us)) {
    Complain(row.key, "is in the ledger with something else than it asked for");
  }
  Known& known = known_[row.key.packed()];
  if (known.order_id == 0) {
    // No caller got an answer. But the order is there, and stays.
    known.order_id = row.order_id;
    known.expires_us = row.expires_us;
    known.sold = plan.call == Plan::Call::kTake;
    ++orders_;
  }
  if (known.gone) Complain(row.key, "was forgotten by the ledger, and is there again");
  if (known.order_id != row.order_id || known.expires_us != row.expires_us) {
    Complain(row.key, absl::StrCat("got order ", known.order_id, ", but the ledger has ", row.order_id));
  }
  if (known.seen_by == inspections_) Complain(row.key, "has two orders");
  InspectState(row, plan, known);
  known.seen_by = inspections_;
  known.state = row.state;
  if (row.state != OrderState::kSold) return;
  for (const OrderLine& line : row.lines) stock_[line.sku].sold += line.quantity;
}

void Witness::InspectState(const LedgerContents::Order& row, const Plan& plan, Known& known) {
  const bool over = row.expires_us >= 0 && absl::FromUnixMicros(row.expires_us) <= absl::Now();
  bool right = false;
  switch (row.state) {
    case OrderState::kHeld: right = !known.sold && (!known.cancelled || over) && (!known.never_sold || over); break;
    case OrderState::kSold: right = plan.may_be_sold() && !known.cancelled && !known.never_sold; break;
    case OrderState::kCancelled: right = plan.may_be_cancelled() && !known.sold; break;
    case OrderState::kExpired: right = over && !known.sold; break;
  }
  if (known.seen_by != 0 && known.state != OrderState::kHeld && row.state != known.state) right = false;
  if (right) return;
  Complain(row.key, absl::StrCat("is in state ", static_cast<int>(row.state), " in the ledger, was in ",
                                 static_cast<int>(known.state), "; said to be sold ", known.sold, ", cancelled ",
                                 known.cancelled, ", refused a commit ", known.never_sold));
}

void Witness::InspectMissing() {
  for (auto& [packed, known] : known_) {
    if (known.order_id == 0 || known.seen_by == inspections_ || known.gone) continue;
    const Key key = Key::Unpacked(packed);
    const bool ended = known.sold || known.cancelled || known.never_sold || known.state != OrderState::kHeld ||
                       PlanOf(world_, key).ttl <= kShortTtl;
    if (!ended || !MayBeForgotten(key)) {
      Complain(key, absl::StrCat("got order ", known.order_id, ", which is not in the ledger"));
    }
    known.gone = true;
  }
}

void Witness::InspectStock(std::span<const LedgerContents::Sku> skus) {
  std::unordered_map<std::string, int64_t> sold;
  for (const auto& [packed, known] : known_) {
    if (!known.sold) continue;
    for (const OrderLine& line : PlanOf(world_, Key::Unpacked(packed)).lines) sold[line.sku] += line.quantity;
  }
  std::unordered_map<std::string, bool> listed;
  for (const auto& [sku, granted, removed, sold_forgotten, returned] : skus) {
    listed.emplace(sku, removed);
    const bool own = absl::StartsWith(sku, "only-");
    const Stock stock = stock_[sku];
    const int64_t in_ledger = stock.sold + sold_forgotten - returned;
    const int64_t first = own ? kOwnStock : world_.stock;
    if (granted > first + stock.attempted || (!removed && granted < first + stock.promised - stock.write_off_tried)) {
      Complain(
          absl::StrCat(sku, " has ", granted, " units, of ", first + stock.promised, " to ", first + stock.attempted));
    }
    if (removed != stock.removed && (stock.removed || !own)) Complain(absl::StrCat(sku, ": removed is ", removed));
    const bool keeps_all = shortest_ == absl::InfiniteDuration();
    if (returned > stock.return_tried || (keeps_all && returned < stock.returned)) {
      Complain(absl::StrCat(sku, ": ", returned, " units came back, of ", stock.returned, " to ", stock.return_tried));
    }
    if (sold[sku] - stock.return_tried > in_ledger || in_ledger > granted) {
      Complain(absl::StrCat(sku, ": ", sold[sku], " units were said to be sold, the ledger has ", in_ledger, " of ",
                            granted));
    }
  }
  for (const auto& [sku, stock] : stock_) {
    if (stock.added && !listed.contains(sku)) Complain(sku + " was added, and is not in the ledger");
  }
}

}  // namespace stockade::testing
