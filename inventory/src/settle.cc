// How a reservation ends: exactly once, under its request's stripe; and how it lasts longer before that.

#include <algorithm>
#include <optional>

#include "local_core.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;

// Expiries in the ledger's queue, at the most: a take that is appended behind them waits for these and no more. A
// sixteenth of SqliteLedgerOptions::max_batch_records.
constexpr size_t kMaxQueuedExpiries = 256;

}  // namespace

absl::Status LocalCore::ChangeOrder(OrderCall& call) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  if (call.kind == Kind::kExtend) {
    if (absl::Status valid = checks_.CheckExtend(call); !valid.ok()) return valid;
  }
  const bool gives_back = call.kind == Kind::kCancel;
  OrderBook::Stripe* const stripe = orders_.StripeOfOrder(call.id);
  if (stripe == nullptr) return checks_.NoSuchOrder(call.id);
  BuyerBook::Lock buyer_lock;
  const MutexLock lock(stripe->mutex);
  Instant now = clock_->Now();
  OrderBook::Ref record = orders_.FindById(*stripe, call.id, now);
  if (record != nullptr && record->has_buyer_limit() && (gives_back || record->IsDue(now))) {
    {
      // The buyer's lock comes first, and only the record says which.
      const MutexUnlock unlocked(stripe->mutex);
      buyer_lock = buyers_.LockFor(record->buyer);
    }
    now = clock_->Now();
    record = orders_.FindById(*stripe, call.id, now);
  }
  if (record == nullptr) return checks_.NoSuchOrder(call.id);
  const bool is_due = record->IsDue(now);
  const OrderState state = is_due ? OrderState::kExpired : record->state;
  const bool all_returned = record->all_returned();
  const Verdict verdict = all_returned ? Verdict::kWrongState : Judge(call.kind, state);
  // The text of a refusal comes before the end of the order: it may find no memory.
  absl::Status status;
  if (verdict == Verdict::kWrongState) status = checks_.WrongState(call.kind, call.id, state, all_returned);
  if (is_due) {
    // The answer will say that the order is over, so a record has to say so first.
    End(*stripe, *record, Kind::kExpire, now);
  } else if (verdict == Verdict::kApply && call.kind == Kind::kExtend) {
    Extend(*stripe, *record, call.ttl, now);
  } else if (verdict == Verdict::kApply) {
    End(*stripe, *record, call.kind, now);
  }
  call.position = record->position;
  if (call.kind == Kind::kExtend) call.expires_at = record->expires_at + record->extended;
  return status;
}

void LocalCore::Extend(OrderBook::Stripe& stripe, OrderRecord& record, absl::Duration ttl, Instant now) {
  const auto us = [](absl::Duration span) { return absl::ToInt64Microseconds(span); };
  const absl::Duration by = absl::Microseconds(
      ExtensionUs(us(ttl), us(record.deadline - now), us(record.ttl), us(record.extended), us(max_hold_)));
  if (by == absl::ZeroDuration()) return;
  OrderBook::MakeRoomToExtend(stripe);
  const auto make = [&] {
    return LedgerRecord{.kind = Kind::kExtend,
                        .order_id = record.id,
                        .extended = record.extended + by,
                        .extended_before = record.extended};
  };
  (void)Carry({"extend: before the append", "extend: appended", "extend: done"}, make, [&](uint64_t position) {
    stripe.mutex.AssertHeld();
    record.position = position;
    orders_.Extend(stripe, record, by);
  });
  metrics_.Add(kExtensions);
}

void LocalCore::End(OrderBook::Stripe& stripe, OrderRecord& record, Kind kind, Instant now) {
  const auto make = [&] { return LedgerRecord{.kind = kind, .order_id = record.id}; };
  (void)Carry({"end: before the append", "end: appended", "end: units moved"}, make, [&](uint64_t position) {
    stripe.mutex.AssertHeld();
    record.position = position;
    orders_.End(stripe, record, *StateAfter(kind), now);
    for (const ItemLine& line : record.lines) {
      const Transfer transfer = TransferOf(kind, !line.item->removed());
      line.item->Move(transfer, line.quantity);
      const int64_t bought = ToOrders(transfer) * line.quantity;
      if (bought != 0 && line.item->counts_buyers()) buyers_.Add(*line.item, record.buyer, bought);
    }
  });
  metrics_.Add(kind == Kind::kCommit ? kCommits : kind == Kind::kCancel ? kCancels : kExpirations);
}

uint64_t LocalCore::Expire(OrderBook::Stripe& stripe, const OrderBook::Ref& record) {
  const BuyerBook::Lock buyer_lock = LockBuyer(record->has_buyer_limit(), record->buyer);
  const MutexLock lock(stripe.mutex);
  // Somebody may have ended or extended it.
  if (const Instant now = clock_->Now(); record->IsDue(now)) End(stripe, *record, Kind::kExpire, now);
  return record->position;
}

std::optional<uint64_t> LocalCore::ExpireFirst(OrderBook::Stripe& stripe, Instant now) {
  OrderBook::Ref record;
  {
    const MutexLock lock(stripe.mutex);
    record = orders_.FirstDue(stripe, now);
  }
  if (record == nullptr) return std::nullopt;
  return Expire(stripe, record);
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
  (void)Outcome(position, durable);
  return absl::IsResourceExhausted(durable) ? kExpiryRetry : absl::ZeroDuration();
}

}  // namespace stockade::inventory_internal
