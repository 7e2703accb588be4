// How units come back after they were sold.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "local_core.h"

namespace stockade::inventory_internal {

using Kind = LedgerRecord::Kind;

absl::Status LocalCore::Return(OrderCall& call) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  if (absl::Status valid = checks_.CheckReturn(call); !valid.ok()) return valid;
  const uint64_t fingerprint = orders_.FingerprintOf(*call.request_id);
  OrderBook::Stripe& stripe = orders_.StripeOf(fingerprint);
  OrderBook::Stripe* const of_order = orders_.StripeOfOrder(call.id);
  const BuyerBook::Lock buyer_lock = LockBuyerOf(of_order, call.id);
  const auto locks = OrderBook::LockBoth(stripe, of_order);
  stripe.mutex.AssertHeld();
  const OrderBook::Found found = orders_.Find(stripe, fingerprint, *call.request_id, *clock_);
  if (found.record != nullptr) call.position = found.record->position;
  if (found.forgotten) return checks_.Forgotten(*call.request_id);
  if (found.record != nullptr) return ReturnAgain(call, *found.record);
  if (of_order == nullptr) return checks_.NoSuchOrder(call.id);

  of_order->mutex.AssertHeld();
  const Instant now = clock_->Now();
  const OrderBook::Ref order = orders_.FindById(*of_order, call.id, now);
  // One that was made since its buyer was looked for did not exist when the call began.
  const bool is_new = order != nullptr && order->has_buyer_limit() && !buyer_lock.owns_lock();
  if (order == nullptr || is_new) return checks_.NoSuchOrder(call.id);
  call.position = order->position;
  const bool is_due = order->IsDue(now);
  const OrderState state = is_due ? OrderState::kExpired : order->state;
  if (Judge(call.kind, state) != Verdict::kApply) {
    // Before the order ends: the text may find no memory.
    absl::Status refused = checks_.WrongState(call.kind, call.id, state);
    if (is_due) End(*of_order, *order, Kind::kExpire, now);
    call.position = order->position;
    return refused;
  }
  ItemLines lines;
  if (absl::Status can = FindReturned(call, *order, lines); !can.ok()) return can;
  OrderBook::Ref record = NewRecord(call, fingerprint, orders_.NextId(stripe), now);
  record->lines = std::move(lines);
  TakeBack(call, stripe, std::move(record), *of_order, *order);
  return absl::OkStatus();
}

BuyerBook::Lock LocalCore::LockBuyerOf(OrderBook::Stripe* stripe, OrderId id) {
  OrderBook::Ref order;
  if (stripe != nullptr) {
    const MutexLock lock(stripe->mutex);
    order = orders_.FindById(*stripe, id, clock_->Now());
  }
  return order == nullptr ? BuyerBook::Lock() : LockBuyer(order->has_buyer_limit(), order->buyer);
}

absl::Status LocalCore::FindReturned(const OrderCall& call, const OrderRecord& order, ItemLines& lines) const {
  if (call.lines.empty()) {
    for (const ItemLine& line : order.lines) {
      if (line.left() > 0) lines.push_back({.item = line.item, .quantity = line.left()});
    }
    return lines.empty() ? checks_.NothingLeft(call.id) : absl::OkStatus();
  }
  auto of_order = order.lines.begin();
  for (const RequestLine& wanted : call.lines) {
    of_order =
        std::find_if(of_order, order.lines.end(), [&](const ItemLine& line) { return line.item->sku == wanted.sku; });
    if (of_order == order.lines.end()) return checks_.NotInOrder(call.id, wanted.sku);
    if (wanted.quantity > of_order->left()) return checks_.TooMany(call.id, wanted, of_order->left());
    lines.push_back({.item = of_order->item, .quantity = wanted.quantity});
  }
  return absl::OkStatus();
}

void LocalCore::TakeBack(OrderCall& call, OrderBook::Stripe& stripe, OrderBook::Ref record, OrderBook::Stripe& of_order,
                         OrderRecord& order) {
  const Instant now = record->ended_at;
  auto change = std::make_unique<OrderChange>(
      OrderChange{.order = order.id, .of_all = call.lines.empty(), .remembered_since = order.ended_at});
  for (const ItemLine& line : record->lines) {
    // While a stripe is locked, no SKU is removed.
    const Transfer transfer = TransferOf(call.kind, !line.item->removed());
    change->to_stock.push_back(transfer.to == Account::kAvailable);
  }
  record->change = std::move(change);
  call.Make(ReturnedLinesOf(*record));
  (void)orders_.Add(stripe, record, now);
  absl::Cleanup undo = [&] {
    stripe.mutex.AssertHeld();
    orders_.Withdraw(stripe, record);
  };
  const auto make = [&] {
    return LedgerRecord{.kind = call.kind,
                        .order_id = order.id,
                        .change_id = record->id,
                        .request_id = record->request_id,
                        .lines = LinesOf<OrderLines>(*record),
                        .of_all = record->change->of_all};
  };
  call.position =
      Carry({"return: before the append", "return: appended", "return: units moved"}, make, [&](uint64_t position) {
        of_order.mutex.AssertHeld();
        record->position = order.position = position;
        orders_.Prolong(of_order, order, now);
        auto of = order.lines.begin();
        for (const ItemLine& line : record->lines) {
          of = std::ranges::find(of, order.lines.end(), line.item, &ItemLine::item);
          of->returned += line.quantity;
          line.item->Move(TransferOf(call.kind, !line.item->removed()), line.quantity);
          if (line.item->counts_buyers()) buyers_.Add(*line.item, order.buyer, -line.quantity);
        }
      });
  std::move(undo).Cancel();
  metrics_.Add(kReturns);
}

absl::Status LocalCore::ReturnAgain(OrderCall& call, const OrderRecord& record) {
  const auto differs = [&](std::string_view what) { return checks_.Mismatch(*call.request_id, what); };
  if (record.change == nullptr) return differs(RequestChecks::kCallKind);
  const OrderChange& change = *record.change;
  if (change.order != call.id) return differs("order");
  if (record.kind != call.kind) return differs("disposition");
  const bool same_lines = std::ranges::equal(call.lines, record.lines, [](const RequestLine& a, const ItemLine& b) {
    return a.sku == b.item->sku && a.quantity == b.quantity;
  });
  if (change.of_all != call.lines.empty() || (!change.of_all && !same_lines)) return differs("set of lines");
  call.Make(ReturnedLinesOf(record));
  metrics_.Add(kRepeats);
  return absl::OkStatus();
}

}  // namespace stockade::inventory_internal
