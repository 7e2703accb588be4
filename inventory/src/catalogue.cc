// The SKUs: how they come, grow and go.

#include <algorithm>

#include "core.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {

using base_internal::Concat;

inventory_internal::Item* Inventory::Core::InsertItem(std::string_view sku, const SkuOptions& options, int64_t granted,
                                                      int64_t available) {
  const int32_t shards = options.shards == 0 ? ShardedStock::DefaultShards() : options.shards;
  // Escaped, because ledgers of older versions may have SKUs that AddSku() refuses now.
  ShardedStockOptions stock{.name = base_internal::Printable(sku),
                            .stock = available,
                            .shards = shards,
                            .max_shards = std::max(shards, max_shards_),
                            .clock = clock_};
  auto item = std::make_unique<Item>(std::string(sku), next_item_number_++, options.per_buyer_limit, granted,
                                     std::move(stock), &metrics_);
  const auto [place, is_new] = items_.emplace(item->sku, std::move(item));
  return is_new ? place->second.get() : nullptr;
}

absl::Status Inventory::Core::AddSku(std::string_view sku, const SkuOptions& options) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  if (absl::Status valid = CheckLength("sku", sku, kMaxSkuBytes); !valid.ok()) return valid;
  if (absl::Status valid = base_internal::CheckName("AddSku: the sku", sku); !valid.ok()) {
    return Refused(Refusal::kInvalid, Concat(valid.message()));
  }
  if (absl::Status valid = options.Validate(); !valid.ok()) {
    return Refused(Refusal::kInvalid, Concat("AddSku '", sku, "': ", valid.message()));
  }
  Item* item = nullptr;
  const PendingStatus added = [&]() -> PendingStatus {
    const base_internal::MutexLock changes(sku_changes_mutex_);
    const base_internal::MutexLock lock(catalogue_mutex_);
    if (const auto found = items_.find(sku); found != items_.end()) {
      const Item& known = *found->second;
      return {.status = absl::AlreadyExistsError(Concat("Inventory '", name_, "': there ",
                                                        known.removed() ? "was" : "is", " a SKU '", sku, "' already")),
              .position = known.position};
    }
    item = InsertItem(sku, options, options.stock, options.stock);
    // Appended before anybody can find the SKU and append what needs it.
    base_internal::CrashPoint("add sku: before the append");
    item->position = Append([&] {
      return LedgerRecord{.kind = LedgerRecord::Kind::kAddSku,
                          .sku = item->sku,
                          .quantity = options.stock,
                          .shards = item->stock->shards(),
                          .per_buyer_limit = options.per_buyer_limit};
    });
    base_internal::CrashPoint("add sku: appended");
    return {.position = item->position};
  }();
  absl::Status status = Finish(added, AwaitDurable(added.position));
  if (status.ok()) AddSkuGauges(*item);
  return status;
}

absl::Status Inventory::Core::RemoveSku(std::string_view sku) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  Item* const item = FindItem(sku);
  if (item == nullptr) return NoSuchSku("RemoveSku", sku);
  const PendingStatus withdrawal = [&]() -> PendingStatus {
    // Nobody is within a call on the item then.
    const base_internal::MutexLock changes(sku_changes_mutex_);
    const auto orders = LockAllOrders();
    const base_internal::MutexLock lock(item->mutex);
    const base_internal::MutexLock catalogue_lock(catalogue_mutex_);
    if (item->removed()) return {.status = NoSuchSku("RemoveSku", sku), .position = item->position};
    const int64_t withdrawn = item->stock->TakeAll();
    base_internal::CrashPoint("remove sku: units withdrawn, before the append");
    item->position = Append(
        [&] { return LedgerRecord{.kind = LedgerRecord::Kind::kRemoveSku, .sku = item->sku, .quantity = withdrawn}; });
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

absl::Status Inventory::Core::Restock(std::string_view sku, int64_t units, const std::string* request_id) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  if (request_id != nullptr) {
    if (absl::Status valid = CheckNames(*request_id, ""); !valid.ok()) return valid;
  }
  if (absl::Status valid = CheckLength("sku", sku, max_sku_bytes_); !valid.ok()) return valid;
  if (units < 1) {
    return Refused(Refusal::kInvalid, Concat("Restock '", sku, "': ", units, " units; at least one can be added"));
  }
  const std::string none;
  const Line line{.sku = sku, .quantity = units};
  const Request request{.kind = inventory_internal::OrderKind::kRestock,
                        .lines = {&line, 1},
                        .request_id = request_id == nullptr ? none : *request_id,
                        .buyer = none,
                        .ttl = absl::InfiniteDuration()};
  const PendingStatus deposit = [&] {
    const base_internal::MutexLock changes(sku_changes_mutex_);
    if (request_id == nullptr) return Deposit(request, nullptr, 0);
    const uint64_t fingerprint = orders_.FingerprintOf(*request_id);
    OrderBook::Stripe& stripe = orders_.StripeOf(fingerprint);
    const base_internal::MutexLock lock(stripe.mutex);
    const OrderBook::Found found = orders_.Find(stripe, fingerprint, *request_id, clock_->Now());
    const uint64_t position = found.record == nullptr ? 0 : found.record->position;
    if (found.forgotten) return PendingStatus{.status = Forgotten(*request_id), .position = position};
    if (found.record == nullptr) return Deposit(request, &stripe, fingerprint);
    absl::Status same = CheckSame(request, *found.record);
    if (same.ok()) metrics_.Add(inventory_internal::kRepeats);
    return PendingStatus{.status = std::move(same), .position = position};
  }();
  return Finish(deposit, AwaitDurable(deposit.position));
}

Inventory::Core::PendingStatus Inventory::Core::Deposit(const Request& request, OrderBook::Stripe* stripe,
                                                        uint64_t fingerprint) {
  const auto [sku, units] = request.lines[0];
  Item* const item = FindItem(sku);
  if (item == nullptr) return {.status = NoSuchSku("Restock", sku)};
  const base_internal::MutexLock lock(item->mutex);
  if (item->removed()) return {.status = NoSuchSku("Restock", sku), .position = item->position};
  const int64_t granted = item->granted();
  if (units > kMaxUnits - granted) {
    return {.status = absl::OutOfRangeError(Concat("Inventory '", name_, "': Restock '", sku, "': ", units,
                                                   " units added to ", granted, " exceed ", kMaxUnits))};
  }
  OrderId id = 0;
  if (stripe != nullptr) {
    stripe->mutex.AssertHeld();  // By Restock(). The analysis forgets it after the block.
    id = orders_.NextId(*stripe);
  }
  base_internal::CrashPoint("restock: before the append");
  const uint64_t position = Append([&] {
    return LedgerRecord{.kind = LedgerRecord::Kind::kRestock,
                        .order_id = id,
                        .request_id = request.request_id,
                        .sku = item->sku,
                        .quantity = units};
  });
  base_internal::CrashPoint("restock: appended, before the deposit");
  if (stripe != nullptr) {
    stripe->mutex.AssertHeld();
    const Instant now = clock_->Now();
    OrderRecord record =
        inventory_internal::RestockRecord(id, fingerprint, {.item = item, .quantity = units}, request.request_id, now);
    record.position = position;
    (void)orders_.Add(*stripe, std::make_shared<OrderRecord>(std::move(record)), now);
  }
  item->PutUp(units);
  // Cannot fail: what is in the shards is at most what was granted.
  (void)item->stock->Deposit(units);
  base_internal::CrashPoint("restock: deposited");
  metrics_.Add(inventory_internal::kRestocks);
  return {.position = position};
}

absl::Status Inventory::Core::Reshard(std::string_view sku, int32_t shards) {
  Item* const item = FindItem(sku);
  if (item == nullptr) return NoSuchSku("Reshard", sku);
  const base_internal::MutexLock lock(item->mutex);
  if (item->removed()) return NoSuchSku("Reshard", sku);
  return item->stock->Reshard(shards);
}

}  // namespace stockade
