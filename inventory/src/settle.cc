// How a reservation ends: exactly once, under its request's stripe.

#include <algorithm>
#include <optional>

#include "local_core.h"
#include "stockade/base/crash_point.h"

namespace stockade::inventory_internal {
namespace {

// Expiries in the ledger's queue, at the most: a take that is appended behind them waits for these and no more. A
// sixteenth of SqliteLedgerOptions::max_batch_records.
constexpr size_t kMaxQueuedExpiries = 256;

}  // namespace

LocalCore::PendingStatus LocalCore::EndOrder(OrderId id, bool gives_back) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return {.status = healthy};
  OrderBook::Stripe* const stripe = orders_.StripeOfOrder(id);
  if (stripe == nullptr) return {.status = checks_.NoSuchOrder(id)};
  BuyerBook::Lock buyer_lock;
  const base_internal::MutexLock lock(stripe->mutex);
  Instant now = clock_->Now();
  OrderBook::Ref record = orders_.FindById(*stripe, id, now);
  if (record != nullptr && record->has_buyer_limit() && (gives_back || record->IsDue(now))) {
    {
      // The buyer's lock comes first, and only the record says which.
      const base_internal::MutexUnlock unlocked(stripe->mutex);
      buyer_lock = buyers_.LockFor(record->buyer);
    }
    now = clock_->Now();
    record = orders_.FindById(*stripe, id, now);
  }
  if (record == nullptr) return {.status = checks_.NoSuchOrder(id)};
  const bool is_due = record->IsDue(now);
  // The text of a refusal comes before the end of the order: it may find no memory.
  absl::Status status = RefusalOfEnd(id, is_due ? OrderState::kExpired : record->state, gives_back);
  if (is_due) {
    // The answer will say that the order is over, so a record has to say so first.
    Expire(*stripe, *record, now);
  } else if (record->state == OrderState::kHeld && gives_back) {
    GiveBack(*stripe, *record, LedgerRecord::Kind::kCancel, OrderState::kCancelled, now);
    metrics_.Add(kCancels);
  } else if (record->state == OrderState::kHeld) {
    CommitHeld(*stripe, *record, now);
  }
  return {.status = std::move(status), .position = record->position};
}

absl::Status LocalCore::RefusalOfEnd(OrderId id, OrderState state, bool gives_back) const {
  if (gives_back) return state == OrderState::kSold ? checks_.CannotCancel(id) : absl::OkStatus();
  const bool may_be_sold = state == OrderState::kHeld || state == OrderState::kSold;
  return may_be_sold ? absl::OkStatus() : checks_.CannotCommit(id, state);
}

void LocalCore::CommitHeld(OrderBook::Stripe& stripe, OrderRecord& record, Instant now) {
  base_internal::CrashPoint("commit: before the append");
  record.position = Append([&] { return LedgerRecord{.kind = LedgerRecord::Kind::kCommit, .order_id = record.id}; });
  base_internal::CrashPoint("commit: appended");
  orders_.End(stripe, record, OrderState::kSold, now);
  for (const ItemLine& line : record.lines) line.item->units.Sell(line.quantity);
  metrics_.Add(kCommits);
}

void LocalCore::GiveBack(OrderBook::Stripe& stripe, OrderRecord& record, LedgerRecord::Kind kind, OrderState state,
                         Instant now) {
  // Appended before its units can be taken, so that no crash leaves them taken twice.
  base_internal::CrashPoint("give back: before the append");
  record.position = Append([&] { return LedgerRecord{.kind = kind, .order_id = record.id}; });
  base_internal::CrashPoint("give back: appended, before the deposit");
  orders_.End(stripe, record, state, now);
  for (const ItemLine& line : record.lines) {
    Item& item = *line.item;
    item.units.Return(line.quantity);
    if (item.removed()) {
      item.Withdraw(line.quantity);
    } else {
      (void)item.stock->Deposit(line.quantity);  // Cannot fail: what is in the shards is at most what was granted.
      if (item.per_buyer_limit != 0) buyers_.Add(item, record.buyer, -line.quantity);
    }
  }
  base_internal::CrashPoint("give back: deposited");
}

void LocalCore::Expire(OrderBook::Stripe& stripe, OrderRecord& record, Instant now) {
  GiveBack(stripe, record, LedgerRecord::Kind::kExpire, OrderState::kExpired, now);
  metrics_.Add(kExpirations);
}

std::optional<uint64_t> LocalCore::ExpireFirst(OrderBook::Stripe& stripe, Instant now) {
  OrderBook::Ref record;
  {
    const base_internal::MutexLock lock(stripe.mutex);
    record = orders_.FirstDue(stripe, now);
  }
  if (record == nullptr) return std::nullopt;
  const BuyerBook::Lock buyer_lock = LockBuyer(record->has_buyer_limit(), record->buyer);
  const base_internal::MutexLock lock(stripe.mutex);
  if (record->state == OrderState::kHeld) Expire(stripe, *record, clock_->Now());
  return record->position;
}

std::optional<absl::Duration> LocalCore::ExpireDue() {
  const Instant now = clock_->Now();
  const size_t stripes = orders_.stripe_count();
  uint64_t position = 0;
  size_t expired = 0;
  size_t idle = 0;  // Stripes in a row that have nothing due.
  while (expired < kMaxQueuedExpiries && idle < stripes) {
    // In a ledger that has failed nothing can be written down any more: the units stay out.
    if (idle == 0 && !Ready().ok()) return std::nullopt;
    // One of each stripe in turn, which is nearly the order of the grants: a ledger finds those side by side.
    const size_t stripe = next_to_expire_++ % stripes;
    const std::optional<uint64_t> ended =
        orders_.EarliestDue(stripe) > now ? std::nullopt : ExpireFirst(orders_.stripe(stripe), now);
    if (!ended.has_value()) {
      ++idle;
      continue;
    }
    idle = 0;
    ++expired;
    position = std::max(position, *ended);
  }
  // So that a take never waits for more than these.
  const absl::Status durable = AwaitDurable(position);
  (void)Finish(PendingStatus{.position = position}, durable);
  return absl::IsResourceExhausted(durable) ? kExpiryRetry : absl::ZeroDuration();
}

absl::StatusOr<OrderState> LocalCore::StateOf(OrderId id) {
  OrderBook::Stripe* const stripe = orders_.StripeOfOrder(id);
  if (stripe == nullptr) return checks_.NoSuchOrder(id);
  const base_internal::MutexLock lock(stripe->mutex);
  const Instant now = clock_->Now();
  const OrderBook::Ref record = orders_.FindById(*stripe, id, now);
  if (record == nullptr) return checks_.NoSuchOrder(id);
  if (record->IsDue(now)) return OrderState::kExpired;
  return record->state;
}

}  // namespace stockade::inventory_internal
