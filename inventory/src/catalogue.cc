// The SKUs: how they come, grow and go.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "local_core.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/printable.h"

namespace stockade::inventory_internal {
namespace {

// A restock returns no order.
void NoAnswer(const OrderRecord&, OrderState) {}

}  // namespace

Item* LocalCore::InsertItem(std::string_view sku, const SkuOptions& options, int64_t granted, int64_t available) {
  const int32_t shards = options.shards == 0 ? ShardedStock::DefaultShards() : options.shards;
  // Escaped, because ledgers of older versions may have SKUs that AddSku() refuses now.
  ShardedStockOptions stock{.name = base_internal::Printable(sku),
                            .stock = available,
                            .shards = shards,
                            .max_shards = std::max(shards, max_shards_),
                            .clock = clock_};
  auto item = std::make_unique<Item>(std::string(sku), next_item_number_++, options.per_buyer_limit, granted,
                                     std::move(stock), &stock_metrics_);
  const auto [place, is_new] = items_.emplace(item->sku, std::move(item));
  return is_new ? place->second.get() : nullptr;
}

absl::Status LocalCore::AddSku(std::string_view sku, const SkuOptions& options) {
  return AddItem("AddSku", sku, options, false);
}

absl::Status LocalCore::EnsureSku(std::string_view sku, const SkuOptions& options) {
  return AddItem("EnsureSku", sku, options, true);
}

absl::Status LocalCore::AddItem(std::string_view call, std::string_view sku, const SkuOptions& options,
                                bool may_exist) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  if (absl::Status valid = checks_.CheckNewSku(call, sku, options); !valid.ok()) return valid;
  Item* item = nullptr;
  const PendingStatus added = [&]() -> PendingStatus {
    const base_internal::MutexLock changes(sku_changes_mutex_);
    const base_internal::MutexLock lock(catalogue_mutex_);
    if (const auto found = items_.find(sku); found != items_.end()) {
      const Item& known = *found->second;
      // What it is now may not be durable yet.
      PendingStatus existing{.position = known.position};
      if (!may_exist || known.removed()) {
        existing.status = checks_.SkuExists(sku, known.removed());
      } else if (known.per_buyer_limit != options.per_buyer_limit) {
        existing.status = checks_.OtherBuyerLimit(sku, known.per_buyer_limit, options.per_buyer_limit);
      }
      return existing;
    }
    item = InsertItem(sku, options, options.stock, options.stock);
    absl::Cleanup undo = [&] {
      catalogue_mutex_.AssertHeld();
      items_.erase(items_.find(sku));
    };
    // Appended before anybody can find the SKU and append what needs it.
    base_internal::CrashPoint("add sku: before the append");
    item->position = Append([&] {
      return LedgerRecord{.kind = LedgerRecord::Kind::kAddSku,
                          .sku = item->sku,
                          .quantity = options.stock,
                          .shards = item->stock->shards(),
                          .per_buyer_limit = options.per_buyer_limit};
    });
    std::move(undo).Cancel();
    base_internal::CrashPoint("add sku: appended");
    return {.position = item->position};
  }();
  absl::Status status = Finish(added, AwaitDurable(added.position));
  if (status.ok() && item != nullptr) AddSkuGauges(*item);
  return status;
}

absl::Status LocalCore::RemoveSku(std::string_view sku) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  Item* const item = FindItem(sku);
  if (item == nullptr) return checks_.NoSuchSku("RemoveSku", sku);
  const PendingStatus withdrawal = [&]() -> PendingStatus {
    // Nobody is within a call on the item then.
    const base_internal::MutexLock changes(sku_changes_mutex_);
    const auto orders = LockAllOrders();
    const base_internal::MutexLock lock(item->mutex);
    const base_internal::MutexLock catalogue_lock(catalogue_mutex_);
    if (item->removed()) return {.status = checks_.NoSuchSku("RemoveSku", sku), .position = item->position};
    const int64_t withdrawn = item->stock->TakeAll();
    absl::Cleanup undo = [&] {
      if (withdrawn > 0) (void)item->stock->Deposit(withdrawn);  // Nobody has missed them.
    };
    base_internal::CrashPoint("remove sku: units withdrawn, before the append");
    item->position = Append(
        [&] { return LedgerRecord{.kind = LedgerRecord::Kind::kRemoveSku, .sku = item->sku, .quantity = withdrawn}; });
    std::move(undo).Cancel();
    base_internal::CrashPoint("remove sku: appended");
    item->Withdraw(withdrawn);
    item->withdrawn = std::move(item->stock);
    return {.position = item->position};
  }();
  absl::Status removed = Finish(withdrawal, AwaitDurable(withdrawal.position));
  if (!removed.ok()) return removed;
  {
    const base_internal::MutexLock lock(item->mutex);
    item->withdrawn = nullptr;
  }
  buyers_.Forget(*item);
  return removed;
}

absl::Status LocalCore::Restock(std::string_view sku, int64_t units, const std::string* request_id) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  if (absl::Status valid = checks_.CheckRestock(request_id, sku, units); !valid.ok()) return valid;
  const std::string none;
  const RequestLine line{.sku = sku, .quantity = units};
  const Request request{.kind = OrderKind::kRestock,
                        .lines = {&line, 1},
                        .request_id = request_id == nullptr ? none : *request_id,
                        .buyer = none,
                        .ttl = absl::InfiniteDuration(),
                        .answer = NoAnswer};
  const PendingStatus deposit = [&] {
    const base_internal::MutexLock changes(sku_changes_mutex_);
    if (request_id == nullptr) return Deposit(request, nullptr, 0);
    const uint64_t fingerprint = orders_.FingerprintOf(*request_id);
    OrderBook::Stripe& stripe = orders_.StripeOf(fingerprint);
    const base_internal::MutexLock lock(stripe.mutex);
    const OrderBook::Found found = orders_.Find(stripe, fingerprint, *request_id, clock_->Now());
    const uint64_t position = found.record == nullptr ? 0 : found.record->position;
    if (found.forgotten) return PendingStatus{.status = checks_.Forgotten(*request_id), .position = position};
    if (found.record == nullptr) return Deposit(request, &stripe, fingerprint);
    absl::Status same = CheckSame(request, *found.record);
    if (same.ok()) metrics_.Add(kRepeats);
    return PendingStatus{.status = std::move(same), .position = position};
  }();
  return Finish(deposit, AwaitDurable(deposit.position));
}

LocalCore::PendingStatus LocalCore::Deposit(const Request& request, OrderBook::Stripe* stripe, uint64_t fingerprint) {
  const auto [sku, units] = request.lines[0];
  Item* const item = FindItem(sku);
  if (item == nullptr) return {.status = checks_.NoSuchSku("Restock", sku)};
  const base_internal::MutexLock lock(item->mutex);
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
    auto added = std::make_shared<OrderRecord>(RestockRecord(
        orders_.NextId(*stripe), fingerprint, {.item = item, .quantity = units}, request.request_id, now));
    (void)orders_.Add(*stripe, added, now);
    record = std::move(added);
  }
  base_internal::CrashPoint("restock: before the append");
  const uint64_t position = Append([&] {
    return LedgerRecord{.kind = LedgerRecord::Kind::kRestock,
                        .order_id = record == nullptr ? 0 : record->id,
                        .request_id = request.request_id,
                        .sku = item->sku,
                        .quantity = units};
  });
  std::move(undo).Cancel();
  base_internal::CrashPoint("restock: appended, before the deposit");
  if (record != nullptr) record->position = position;
  item->PutUp(units);
  // Cannot fail: what is in the shards is at most what was granted.
  (void)item->stock->Deposit(units);
  base_internal::CrashPoint("restock: deposited");
  metrics_.Add(kRestocks);
  return {.position = position};
}

absl::Status LocalCore::Reshard(std::string_view sku, int32_t shards) {
  Item* const item = FindItem(sku);
  if (item == nullptr) return checks_.NoSuchSku("Reshard", sku);
  const base_internal::MutexLock lock(item->mutex);
  if (item->removed()) return checks_.NoSuchSku("Reshard", sku);
  return item->stock->Reshard(shards);
}

}  // namespace stockade::inventory_internal
