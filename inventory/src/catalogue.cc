// The SKUs: how they come, grow and go.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "local_core.h"
#include "stockade/base/printable.h"

namespace stockade::inventory_internal {
Item* LocalCore::InsertItem(std::string_view sku, const SkuOptions& options, int64_t granted, int64_t available) {
  if (FindNamed(sku) != nullptr) return nullptr;
  const int32_t shards = options.shards == 0 ? ShardedStock::DefaultShards() : options.shards;
  // Escaped, because ledgers of older versions may have SKUs that AddSku() refuses now.
  ShardedStockOptions stock{.name = Printable(sku),
                            .stock = available,
                            .shards = shards,
                            .max_shards = std::max(shards, max_shards_),
                            .clock = clock_};
  auto item = std::make_unique<Item>(std::string(sku), next_item_number_++, options.per_buyer_limit, granted,
                                     std::move(stock), &stock_metrics_);
  // For additions that are undone, which must not allocate.
  const size_t room = never_added_.size() + items_.size() + 1;
  if (room > never_added_.capacity()) never_added_.reserve(2 * room);
  items_.MakeRoom();
  Item* const added = item.get();
  items_.Insert({.hash = absl::HashOf(AbslView(sku)), .item = std::move(item)});
  return added;
}

absl::Status LocalCore::ChangeSku(const SkuCall& call) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  switch (call.kind) {
    case SkuCall::Kind::kAdd:
    case SkuCall::Kind::kEnsure: return AddSku(call);
    case SkuCall::Kind::kRemove: return RemoveSku(call);
    case SkuCall::Kind::kRestock: return Restock(call);
    case SkuCall::Kind::kReshard: return Reshard(call);
  }
  return absl::OkStatus();
}

absl::Status LocalCore::AddSku(const SkuCall& call) {
  const std::string_view sku = call.sku;
  const SkuOptions& options = *call.options;
  if (absl::Status valid = checks_.CheckNewSku(call.name, sku, options); !valid.ok()) return valid;
  Item* item = nullptr;
  const PendingStatus added = [&]() -> PendingStatus {
    const MutexLock changes(sku_changes_mutex_);
    const MutexLock lock(catalogue_mutex_);
    if (Item* const found = Named(sku); found != nullptr) {
      const Item& known = *found;
      // What it is now may not be durable yet.
      PendingStatus existing{.position = known.position};
      if (call.kind == SkuCall::Kind::kAdd || known.removed()) {
        existing.status = checks_.SkuExists(sku, known.removed());
      } else if (known.per_buyer_limit != options.per_buyer_limit) {
        existing.status = checks_.OtherBuyerLimit(sku, known.per_buyer_limit, options.per_buyer_limit);
      }
      return existing;
    }
    item = InsertItem(sku, options, options.stock, options.stock);
    absl::Cleanup undo = [&] {
      catalogue_mutex_.AssertHeld();
      items_.Erase(FindNamed(sku));
    };
    const auto make = [&] {
      return LedgerRecord{.kind = LedgerRecord::Kind::kAddSku,
                          .lines = {{item->sku, options.stock}},
                          .shards = item->stock->shards(),
                          .per_buyer_limit = options.per_buyer_limit};
    };
    // Nobody finds the SKU, and appends what needs it, before the catalogue is unlocked.
    const uint64_t position = Carry({"add sku: before the append", "add sku: appended", "add sku: given"}, make,
                                    [&](uint64_t at) { item->position = at; });
    std::move(undo).Cancel();
    return {.position = position};
  }();
  absl::Status status = Finish(added);
  if (status.ok() && item != nullptr) AddSkuGauges(*item);
  return status;
}

absl::Status LocalCore::RemoveSku(const SkuCall& call) {
  Item* const item = FindItem(call.sku);
  if (item == nullptr) return checks_.NoSuchSku(call.name, call.sku);
  const PendingStatus withdrawal = [&]() -> PendingStatus {
    // Nobody is within a call on the item then.
    const MutexLock changes(sku_changes_mutex_);
    const auto orders = LockAllOrders();
    const MutexLock lock(item->mutex);
    const MutexLock catalogue_lock(catalogue_mutex_);
    if (item->removed()) return {.status = checks_.NoSuchSku(call.name, call.sku), .position = item->position};
    const int64_t withdrawn = item->stock->TakeAll();
    absl::Cleanup undo = [&] {
      if (withdrawn > 0) (void)item->stock->Deposit(withdrawn);  // Nobody has missed them.
    };
    const auto make = [&] {
      return LedgerRecord{.kind = LedgerRecord::Kind::kRemoveSku, .lines = {{item->sku, withdrawn}}};
    };
    const uint64_t position =
        Carry({"remove sku: units withdrawn, before the append", "remove sku: appended", "remove sku: given"}, make,
              [&](uint64_t at) {
                item->position = at;
                item->Move(TransferOf(LedgerRecord::Kind::kRemoveSku, true), withdrawn);
              });
    std::move(undo).Cancel();
    item->withdrawn = std::move(item->stock);
    return {.position = position};
  }();
  absl::Status removed = Finish(withdrawal);
  if (!removed.ok()) return removed;
  {
    const MutexLock lock(item->mutex);
    item->withdrawn = nullptr;
  }
  buyers_.Forget(*item);
  return removed;
}

absl::Status LocalCore::Restock(const SkuCall& call) {
  if (absl::Status valid = checks_.CheckRestock(call.request_id, call.sku, call.units); !valid.ok()) return valid;
  const std::string none;
  OrderCall request(LedgerRecord::Kind::kRestock, call.request_id == nullptr ? none : *call.request_id, none,
                    absl::InfiniteDuration());
  request.lines.push_back({.sku = call.sku, .quantity = call.units});
  const PendingStatus deposit = [&] {
    const MutexLock changes(sku_changes_mutex_);
    if (call.request_id == nullptr) return Deposit(request, nullptr, 0);
    const uint64_t fingerprint = orders_.FingerprintOf(*call.request_id);
    OrderBook::Stripe& stripe = orders_.StripeOf(fingerprint);
    const MutexLock lock(stripe.mutex);
    const OrderBook::Found found = orders_.Find(stripe, fingerprint, *call.request_id, *clock_);
    const uint64_t position = found.record == nullptr ? 0 : found.record->position;
    if (found.forgotten) return PendingStatus{.status = checks_.Forgotten(*call.request_id), .position = position};
    if (found.record == nullptr) return Deposit(request, &stripe, fingerprint);
    absl::Status same = CheckSame(request, *found.record);
    if (same.ok()) metrics_.Add(kRepeats);
    return PendingStatus{.status = std::move(same), .position = position};
  }();
  return Finish(deposit);
}

LocalCore::PendingStatus LocalCore::Deposit(const OrderCall& request, OrderBook::Stripe* stripe, uint64_t fingerprint) {
  const auto [sku, units] = request.lines[0];
  Item* const item = FindItem(sku);
  if (item == nullptr) return {.status = checks_.NoSuchSku("Restock", sku)};
  const MutexLock lock(item->mutex);
  if (item->removed()) return {.status = checks_.NoSuchSku("Restock", sku), .position = item->position};
  const int64_t granted = item->granted();
  if (units > kMaxUnits - granted) return {.status = checks_.TooManyUnits(sku, units, granted)};
  OrderBook::Ref record;
  absl::Cleanup undo = [&] {
    if (record == nullptr) return;
    stripe->mutex.AssertHeld();
    orders_.Withdraw(*stripe, record);
  };
  if (stripe != nullptr) {
    stripe->mutex.AssertHeld();  // By Restock(). The analysis forgets it after the block.
    const Instant now = clock_->Now();
    OrderBook::Ref added = NewRecord(request, fingerprint, orders_.NextId(*stripe), now);
    added->lines.push_back({.item = item, .quantity = units});
    (void)orders_.Add(*stripe, added, now);
    record = std::move(added);
  }
  const auto make = [&] {
    return LedgerRecord{.kind = LedgerRecord::Kind::kRestock,
                        .order_id = record == nullptr ? 0 : record->id,
                        .request_id = *request.request_id,
                        .lines = {{item->sku, units}}};
  };
  const uint64_t position =
      Carry({"restock: before the append", "restock: appended", "restock: deposited"}, make, [&](uint64_t at) {
        if (record != nullptr) record->position = at;
        item->Move(TransferOf(LedgerRecord::Kind::kRestock, true), units);
      });
  std::move(undo).Cancel();
  metrics_.Add(kRestocks);
  return {.position = position};
}

absl::Status LocalCore::Reshard(const SkuCall& call) {
  Item* const item = FindItem(call.sku);
  if (item == nullptr) return checks_.NoSuchSku(call.name, call.sku);
  return Finish([&]() -> PendingStatus {
    const MutexLock changes(sku_changes_mutex_);
    const MutexLock lock(item->mutex);
    if (item->removed()) return {.status = checks_.NoSuchSku(call.name, call.sku), .position = item->position};
    return {.status = item->stock->Reshard(call.shards)};
  }());
}

}  // namespace stockade::inventory_internal
