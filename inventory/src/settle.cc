// How a reservation ends: exactly once, under its request's stripe.

#include "core.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"

namespace stockade {

using internal::Concat;

Inventory::Core::Settled Inventory::Core::Settle(OrderId id, bool gives_back,
                                                 absl::Status (Core::*settle)(OrderBook::Stripe&, OrderRecord&,
                                                                              Instant)) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return {.status = healthy};
  OrderBook::Stripe* const stripe = orders_.StripeOfOrder(id);
  if (stripe == nullptr) return {.status = NoSuchOrder(id)};
  internal::BuyerBook::Lock buyer_lock;
  std::unique_lock lock(stripe->mutex);
  Instant now = clock_->Now();
  OrderBook::Ref record = orders_.FindById(*stripe, id, now);
  if (record != nullptr && gives_back && record->has_buyer_limit()) {
    // The buyer's lock comes first, and only the record says which.
    lock.unlock();
    buyer_lock = buyers_.LockFor(record->buyer);
    lock.lock();
    now = clock_->Now();
    record = orders_.FindById(*stripe, id, now);
  }
  if (record == nullptr) return {.status = NoSuchOrder(id)};
  absl::Status status = (this->*settle)(*stripe, *record, now);
  return {.status = std::move(status), .position = record->position};
}

Inventory::Core::Settled Inventory::Core::Commit(OrderId id) { return Settle(id, false, &Core::CommitLocked); }

Inventory::Core::Settled Inventory::Core::Cancel(OrderId id) { return Settle(id, true, &Core::CancelLocked); }

absl::Status Inventory::Core::CommitLocked(OrderBook::Stripe& stripe, OrderRecord& record, Instant now) {
  const auto refuse = [&](std::string_view state) {
    return absl::FailedPreconditionError(
        Concat("Inventory '", name_, "': order ", record.id, " cannot be committed: it ", state));
  };
  if (record.state == OrderState::kCancelled) return refuse("was cancelled");
  if (record.state == OrderState::kExpired) return refuse("has expired");
  if (record.state == OrderState::kSold) return absl::OkStatus();
  if (now >= record.deadline) return refuse("has expired");
  internal::CrashPoint("commit: before the append");
  record.position = Append([&] { return LedgerRecord{.kind = LedgerRecord::Kind::kCommit, .order_id = record.id}; });
  internal::CrashPoint("commit: appended");
  orders_.End(stripe, record, OrderState::kSold, now);
  for (const internal::ItemLine& line : record.lines) line.item->units.Sell(line.quantity);
  metrics_.Add(internal::kCommits);
  return absl::OkStatus();
}

absl::Status Inventory::Core::CancelLocked(OrderBook::Stripe& stripe, OrderRecord& record, Instant now) {
  if (record.state == OrderState::kSold) {
    return absl::FailedPreconditionError(
        Concat("Inventory '", name_, "': order ", record.id, " cannot be cancelled: it is sold"));
  }
  // Else its units are for sale again, or the reaper is at it.
  if (record.state == OrderState::kHeld && now < record.deadline) {
    GiveBack(stripe, record, LedgerRecord::Kind::kCancel, OrderState::kCancelled, now);
    metrics_.Add(internal::kCancels);
  }
  return absl::OkStatus();
}

void Inventory::Core::GiveBack(OrderBook::Stripe& stripe, OrderRecord& record, LedgerRecord::Kind kind,
                               OrderState state, Instant now) {
  // Appended before its units can be taken, so that no crash leaves them taken twice.
  internal::CrashPoint("give back: before the append");
  record.position = Append([&] { return LedgerRecord{.kind = kind, .order_id = record.id}; });
  internal::CrashPoint("give back: appended, before the deposit");
  orders_.End(stripe, record, state, now);
  for (const internal::ItemLine& line : record.lines) {
    Item& item = *line.item;
    item.units.Return(line.quantity);
    if (item.removed()) {
      item.Withdraw(line.quantity);
    } else {
      (void)item.stock->Deposit(line.quantity);  // Cannot fail: what is in the shards is at most what was granted.
      if (item.per_buyer_limit != 0) buyers_.Add(item, record.buyer, -line.quantity);
    }
  }
  internal::CrashPoint("give back: deposited");
}

bool Inventory::Core::ExpireDue(size_t index) {
  OrderBook::Stripe& stripe = orders_.stripe(index);
  uint64_t position = 0;
  for (;;) {
    // In a ledger that has failed nothing can be written down any more: the units stay out.
    if (!Ready().ok()) return false;
    OrderBook::Ref record;
    {
      const std::lock_guard lock(stripe.mutex);
      record = orders_.FirstDue(stripe, clock_->Now());
    }
    if (record == nullptr) break;
    const internal::BuyerBook::Lock buyer_lock = LockBuyer(record->has_buyer_limit(), record->buyer);
    const std::lock_guard lock(stripe.mutex);
    if (record->state != OrderState::kHeld) continue;
    GiveBack(stripe, *record, LedgerRecord::Kind::kExpire, OrderState::kExpired, clock_->Now());
    position = record->position;
    metrics_.Add(internal::kExpirations);
  }
  // Nobody waits for these.
  if (position != 0) {
    ledger_->NotifyDurable(position, [this, position](const absl::Status& durable) {
      (void)Finish(Settled{.position = position}, durable);
    });
  }
  return true;
}

absl::StatusOr<OrderState> Inventory::Core::StateOf(OrderId id) {
  OrderBook::Stripe* const stripe = orders_.StripeOfOrder(id);
  if (stripe == nullptr) return NoSuchOrder(id);
  const std::lock_guard lock(stripe->mutex);
  const Instant now = clock_->Now();
  const OrderBook::Ref record = orders_.FindById(*stripe, id, now);
  if (record == nullptr) return NoSuchOrder(id);
  if (record->state == OrderState::kHeld && now >= record->deadline) return OrderState::kExpired;
  return record->state;
}

}  // namespace stockade
