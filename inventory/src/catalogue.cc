// The SKUs: how they come, grow and go.

#include <algorithm>

#include "core.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"

namespace stockade {

using internal::Concat;

internal::Item* Inventory::Core::InsertItem(std::string_view sku, const SkuOptions& options, int64_t granted,
                                            int64_t available) {
  const int32_t shards = options.shards == 0 ? ShardedStock::DefaultShards() : options.shards;
  ShardedStockOptions stock{.name = std::string(sku),
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
  if (sku.empty()) return Refused(Refusal::kInvalid, "AddSku: the sku is empty");
  if (absl::Status valid = options.Validate(); !valid.ok()) {
    return Refused(Refusal::kInvalid, Concat("AddSku '", sku, "': ", valid.message()));
  }
  uint64_t position;
  const Item* item;
  {
    const std::lock_guard changes(sku_changes_mutex_);
    const std::lock_guard lock(catalogue_mutex_);
    if (const auto found = items_.find(sku); found != items_.end()) {
      return absl::AlreadyExistsError(Concat("Inventory '", name_, "': there ", found->second->removed() ? "was" : "is",
                                             " a SKU '", sku, "' already"));
    }
    item = InsertItem(sku, options, options.stock, options.stock);
    // Appended before anybody can find the SKU and append what needs it.
    internal::CrashPoint("add sku: before the append");
    position = Append([&] {
      return LedgerRecord{.kind = LedgerRecord::Kind::kAddSku,
                          .sku = item->sku,
                          .quantity = options.stock,
                          .shards = item->stock->shards(),
                          .per_buyer_limit = options.per_buyer_limit};
    });
    internal::CrashPoint("add sku: appended");
  }
  absl::Status added = Finish(Settled{.position = position}, AwaitDurable(position));
  if (added.ok()) AddSkuGauges(*item);
  return added;
}

absl::Status Inventory::Core::RemoveSku(std::string_view sku) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  Item* const item = FindItem(sku);
  if (item == nullptr) return NoSuchSku("RemoveSku", sku);
  uint64_t position;
  {
    // Nobody is within a call on the item then.
    const std::lock_guard changes(sku_changes_mutex_);
    const auto orders = LockAllOrders();
    const std::lock_guard lock(item->mutex);
    const std::lock_guard catalogue_lock(catalogue_mutex_);
    if (item->removed()) return NoSuchSku("RemoveSku", sku);
    const int64_t withdrawn = item->stock->TakeAll();
    internal::CrashPoint("remove sku: units withdrawn, before the append");
    position = Append(
        [&] { return LedgerRecord{.kind = LedgerRecord::Kind::kRemoveSku, .sku = item->sku, .quantity = withdrawn}; });
    internal::CrashPoint("remove sku: appended");
    item->Withdraw(withdrawn);
    item->withdrawn = std::move(item->stock);
  }
  absl::Status removed = Finish(Settled{.position = position}, AwaitDurable(position));
  if (!removed.ok()) return removed;
  {
    const std::lock_guard lock(item->mutex);
    item->withdrawn = nullptr;
  }
  buyers_.Forget(*item);
  return removed;
}

absl::Status Inventory::Core::Restock(std::string_view sku, int64_t units) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  if (units < 1) {
    return Refused(Refusal::kInvalid, Concat("Restock '", sku, "': ", units, " units; at least one can be added"));
  }
  Item* const item = FindItem(sku);
  if (item == nullptr) return NoSuchSku("Restock", sku);
  uint64_t position;
  {
    const std::lock_guard changes(sku_changes_mutex_);
    const std::lock_guard lock(item->mutex);
    if (item->removed()) return NoSuchSku("Restock", sku);
    const int64_t granted = item->granted();
    if (units > kMaxUnits - granted) {
      return absl::OutOfRangeError(Concat("Inventory '", name_, "': Restock '", sku, "': ", units, " units on top of ",
                                          granted, " are more than ", kMaxUnits));
    }
    internal::CrashPoint("restock: before the append");
    position =
        Append([&] { return LedgerRecord{.kind = LedgerRecord::Kind::kRestock, .sku = item->sku, .quantity = units}; });
    internal::CrashPoint("restock: appended, before the deposit");
    item->PutUp(units);
    // Cannot fail: what is in the shards is at most what was granted.
    (void)item->stock->Deposit(units);
    internal::CrashPoint("restock: deposited");
  }
  absl::Status restocked = Finish(Settled{.position = position}, AwaitDurable(position));
  if (restocked.ok()) metrics_.Add(internal::kRestocks);
  return restocked;
}

absl::Status Inventory::Core::Reshard(std::string_view sku, int32_t shards) {
  Item* const item = FindItem(sku);
  if (item == nullptr) return NoSuchSku("Reshard", sku);
  const std::lock_guard lock(item->mutex);
  if (item->removed()) return NoSuchSku("Reshard", sku);
  return item->stock->Reshard(shards);
}

}  // namespace stockade
