// How an inventory undoes the changes that its ledger has refused, mostly because there was no room.
//
// The refused records are the last ones that were appended, and memory holds exactly the effect of all appended
// records: while all stripes and the changes of SKUs are locked, no operation is between memory and the journal. The
// records are taken back from the last to the first, so each finds memory as it was right after that record. So the
// units that it took from the shards are missing there and can be put back, and the units that it put into the shards
// are there and can be taken: if another operation took them since, that one was refused, too, and has been taken back.
// At the end memory agrees with the ledger, as if the operations had never been called.

#include <algorithm>
#include <ranges>

#include "absl/cleanup/cleanup.h"
#include "local_core.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;

}  // namespace

void LocalCore::UndoRefusedRecords() {
  const MutexLock changes(sku_changes_mutex_);
  // The ledger is about to go, and memory with it.
  if (closing_.load(std::memory_order_relaxed)) return;
  const auto buyers = buyers_.LockAll();
  const auto orders = LockAllOrders();
  const absl::Cleanup drop = [this] { DropBuyersWithoutUnits(); };
  MakeRoomToUndo();
  const std::vector<LedgerRecord> refused = ledger_->TakeRefused();
  // From here on nothing allocates: a part of the records cannot be undone alone.
  for (const LedgerRecord& record : std::views::reverse(refused)) UndoRecord(record);
}

// Room for the orders whose end may be refused: they become due again, and their units are the buyers' again.
void LocalCore::MakeRoomToUndo() {
  for (size_t i = 0; i < orders_.stripe_count(); ++i) {
    OrderBook::Stripe& stripe = orders_.stripe(i);
    stripe.mutex.AssertHeld();  // By UndoRefusedRecords(), which locks all stripes.
    orders_.MakeRoomToReopen(stripe);
    orders_.VisitUndecidedEnds(stripe, [this](const OrderRecord& record) { MakeRoomForBuyer(record); });
  }
}

void LocalCore::DropBuyersWithoutUnits() noexcept {
  buyers_.DropEmpty();
  for (size_t i = 0; i < orders_.stripe_count(); ++i) {
    OrderBook::Stripe& stripe = orders_.stripe(i);
    stripe.mutex.AssertHeld();  // As above.
    orders_.VisitUndecidedEnds(stripe, [this](const OrderRecord& record) {
      for (const ItemLine& line : record.lines) buyers_.Add(*line.item, record.buyer, 0);
    });
  }
}

void LocalCore::UndoRecord(const LedgerRecord& refused) {
  if (!StateAfter(refused.kind).has_value()) return UndoSkuChange(refused);
  const auto unknown = [&] {
    Fatal(Concat("Inventory '", name_, "': the ledger refused a record of order ", refused.order_id,
                 ", which does not exist"));
  };
  OrderBook::Stripe* const stripe = orders_.StripeOfOrder(refused.order_id);
  if (stripe == nullptr) unknown();
  stripe->mutex.AssertHeld();  // By UndoRefusedRecords(), which locks all stripes.
  const OrderBook::Ref record = orders_.FindUndecided(*stripe, refused.order_id);
  if (record == nullptr) unknown();
  if (IsReturn(refused.kind)) return UndoReturn(refused, *record);
  for (const ItemLine& line : record->lines) {
    const int64_t bought = ToOrders(UndoMove(*line.item, refused.kind, line.quantity)) * line.quantity;
    if (bought != 0 && line.item->counts_buyers()) buyers_.AddUndone(*line.item, record->buyer, bought);
  }
  if (IsGrant(refused.kind)) return orders_.Withdraw(*stripe, record);
  // The record before is durable, or is undone next.
  record->position = 0;
  if (refused.kind == Kind::kExtend) {
    orders_.Shorten(*stripe, *record, refused.extended - refused.extended_before);
    return reaper_->WakeBy(record->deadline);
  }
  const Instant due_at = refused.kind == Kind::kExpire ? clock_->Now() + kExpiryRetry : record->deadline;
  orders_.Reopen(*stripe, *record, due_at);
  reaper_->WakeBy(due_at);
}

void LocalCore::UndoReturn(const LedgerRecord& refused, OrderRecord& order) {
  auto of = order.lines.begin();
  for (const OrderLine& line : refused.lines) {
    of = std::find_if(of, order.lines.end(), [&](const ItemLine& other) { return other.item->sku == line.sku; });
    of->returned -= line.quantity;
    (void)UndoMove(*of->item, refused.kind, line.quantity);
    if (of->item->counts_buyers()) buyers_.AddUndone(*of->item, order.buyer, line.quantity);
  }
  order.position = 0;  // As in UndoRecord().
  OrderBook::Stripe& stripe = *orders_.StripeOfOrder(refused.change_id);
  stripe.mutex.AssertHeld();  // By UndoRefusedRecords(), which locks all stripes.
  const OrderBook::Ref change = orders_.FindUndecided(stripe, refused.change_id);
  // It stays behind those that ended later, so its memory goes with theirs.
  order.ended_at = change->change->remembered_since;
  orders_.Withdraw(stripe, change);
}

Transfer LocalCore::UndoMove(Item& item, Kind kind, int64_t units) {
  const Transfer back = Reverse(TransferOf(kind, !item.removed()));
  if (TakesFirst(back) && units > 0) (void)item.stock->Take(units);  // They are there.
  item.Move(back, units);
  return back;
}

void LocalCore::UndoSkuChange(const LedgerRecord& refused) {
  const auto& [sku, units] = refused.lines[0];
  Item* const item = FindItem(sku);
  const MutexLock lock(item->mutex);
  if (refused.kind == Kind::kRestock) {
    (void)UndoMove(*item, refused.kind, units);
    if (refused.order_id == 0) return;
    OrderBook::Stripe& stripe = *orders_.StripeOfOrder(refused.order_id);
    stripe.mutex.AssertHeld();  // By UndoRefusedRecords(), which locks all stripes.
    orders_.Withdraw(stripe, orders_.FindUndecided(stripe, refused.order_id));
    return;
  }
  const MutexLock catalogue_lock(catalogue_mutex_);
  if (refused.kind == Kind::kRemoveSku) {
    item->stock = std::move(item->withdrawn);
    item->position = 0;  // As in UndoRecord().
  }
  (void)UndoMove(*item, refused.kind, units);
  if (refused.kind != Kind::kAddSku) return;
  item->stock = nullptr;
  NamedItem* const added = FindNamed(sku);
  never_added_.push_back(std::move(added->item));
  items_.Erase(added);
}

}  // namespace stockade::inventory_internal
