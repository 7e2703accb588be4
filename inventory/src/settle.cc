// How a reservation ends: exactly once, under its request's stripe.

#include "core.h"
#include "stockade/base/strings.h"

namespace stockade {

using internal::Concat;

absl::Status Inventory::Core::Commit(OrderId id) {
  if (absl::Status healthy = Health(); !healthy.ok()) return healthy;
  OrderRecord* const record = FindOrder(id);
  if (record == nullptr) return NoSuchOrder(id);
  const auto refuse = [&](std::string_view state) {
    return absl::FailedPreconditionError(
        Concat("Inventory '", name_, "': order ", id, " cannot be committed: it ", state));
  };
  absl::Status committed;
  uint64_t position;
  {
    std::lock_guard lock(StripeOf(record->request_id).mutex);
    if (record->state == OrderState::kCancelled) {
      committed = refuse("was cancelled");
    } else if (record->state == OrderState::kExpired ||
               (record->state == OrderState::kHeld && clock_->Now() >= record->deadline)) {
      committed = refuse("has expired");
    } else if (record->state == OrderState::kHeld) {
      record->position = Append({.kind = LedgerRecord::Kind::kCommit, .order_id = id});
      record->state = OrderState::kSold;
      record->item->sold.fetch_add(record->quantity, std::memory_order_relaxed);
      record->item->held.fetch_sub(record->quantity, std::memory_order_relaxed);
      reaper_->Remove(*record);
      metrics_.Add(internal::kCommits);
    }
    position = record->position;
  }
  if (absl::Status durable = AwaitDurable(position); !durable.ok()) return durable;
  return committed;
}

absl::Status Inventory::Core::Cancel(OrderId id) {
  if (absl::Status healthy = Health(); !healthy.ok()) return healthy;
  OrderRecord* const record = FindOrder(id);
  if (record == nullptr) return NoSuchOrder(id);
  absl::Status cancelled;
  uint64_t position;
  {
    const std::unique_lock<ReentrantMutex> buyer_lock = LockBuyer(*record->item, record->buyer);
    std::lock_guard lock(StripeOf(record->request_id).mutex);
    if (record->state == OrderState::kSold) {
      cancelled = absl::FailedPreconditionError(
          Concat("Inventory '", name_, "': order ", id, " cannot be cancelled: it is sold"));
    } else if (record->state == OrderState::kHeld && clock_->Now() < record->deadline) {
      GiveBack(*record, LedgerRecord::Kind::kCancel, OrderState::kCancelled);
      reaper_->Remove(*record);
      metrics_.Add(internal::kCancels);
    }  // Else its units are for sale again, or the reaper is at it.
    position = record->position;
  }
  if (absl::Status durable = AwaitDurable(position); !durable.ok()) return durable;
  return cancelled;
}

void Inventory::Core::Expire(OrderRecord& record) {
  // In a ledger that has failed nothing can be written down any more: the units stay out.
  if (!Health().ok()) return;
  const std::unique_lock<ReentrantMutex> buyer_lock = LockBuyer(*record.item, record.buyer);
  std::lock_guard lock(StripeOf(record.request_id).mutex);
  if (record.state != OrderState::kHeld) return;
  GiveBack(record, LedgerRecord::Kind::kExpire, OrderState::kExpired);
  metrics_.Add(internal::kExpirations);
}

void Inventory::Core::GiveBack(OrderRecord& record, LedgerRecord::Kind kind, OrderState state) {
  Item& item = *record.item;
  // Appended before its units can be taken, so that no crash leaves them taken twice.
  record.position = Append({.kind = kind, .order_id = record.id});
  record.state = state;
  (void)item.stock.Deposit(record.quantity);  // Cannot fail: what is in the shards is at most what was granted.
  item.held.fetch_sub(record.quantity, std::memory_order_relaxed);
  if (item.per_buyer_limit == 0) return;
  auto& units = BuyerStripeOf(record.buyer).units;
  const auto found = units.find({&item, record.buyer});
  found->second -= record.quantity;
  if (found->second == 0) units.erase(found);
}

absl::StatusOr<OrderState> Inventory::Core::StateOf(OrderId id) {
  OrderRecord* const record = FindOrder(id);
  if (record == nullptr) return NoSuchOrder(id);
  std::lock_guard lock(StripeOf(record->request_id).mutex);
  if (record->state == OrderState::kHeld && clock_->Now() >= record->deadline) return OrderState::kExpired;
  return record->state;
}

}  // namespace stockade
