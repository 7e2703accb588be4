// How an inventory takes over what its ledger holds.

#include <algorithm>

#include "core.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

using internal::Concat;

bool TakesUnits(OrderState state) { return state == OrderState::kHeld || state == OrderState::kSold; }

}  // namespace

absl::Status Inventory::Core::Recover() {
  // Before the first record: it may be due at once. It finds the stripes free once they have been filled.
  reaper_ = std::make_unique<internal::Reaper>(clock_, [this](OrderRecord& record) { Expire(record); });
  if (ledger_ == nullptr) return absl::OkStatus();
  if (absl::Status healthy = Health(); !healthy.ok()) return healthy;
  const LedgerState state = ledger_->TakeRecovered();
  std::map<std::string_view, int64_t> taken;
  for (const LedgerState::Order& order : state.orders) {
    if (!TakesUnits(order.state)) continue;
    if (order.quantity < 1 || __builtin_add_overflow(taken[order.sku], order.quantity, &taken[order.sku])) {
      return absl::DataLossError(
          Concat("Inventory '", name_, "': order ", order.order_id, " is of ", order.quantity, " units"));
    }
  }
  for (const LedgerState::Sku& sku : state.skus) {
    if (absl::Status added = RecoverSku(sku, taken[sku.sku]); !added.ok()) return added;
  }
  for (const LedgerState::Order& order : state.orders) {
    if (absl::Status added = RecoverOrder(order); !added.ok()) return added;
  }
  return absl::OkStatus();
}

absl::Status Inventory::Core::RecoverSku(const LedgerState::Sku& sku, int64_t taken) {
  const SkuOptions options{.stock = sku.granted, .shards = sku.shards, .per_buyer_limit = sku.per_buyer_limit};
  absl::Status valid = options.Validate();
  if (valid.ok() && taken > sku.granted) {
    valid = absl::DataLossError(Concat(taken, " units are held or sold, but only ", sku.granted, " were granted"));
  }
  if (!valid.ok()) {
    return absl::DataLossError(Concat("Inventory '", name_, "': SKU '", sku.sku, "': ", valid.message()));
  }
  const std::lock_guard lock(items_mutex_);
  auto item = std::make_unique<Item>(sku.sku, options, sku.granted - taken, &metrics_);
  if (!items_.emplace(sku.sku, std::move(item)).second) {
    return absl::DataLossError(Concat("Inventory '", name_, "': SKU '", sku.sku, "' is in the ledger twice"));
  }
  return absl::OkStatus();
}

absl::Status Inventory::Core::RecoverOrder(const LedgerState::Order& order) {
  const auto damaged = [&](std::string_view what) {
    return absl::DataLossError(Concat("Inventory '", name_, "': order ", order.order_id, ": ", what));
  };
  Item* const item = FindItem(order.sku);
  if (item == nullptr) return damaged("its SKU is not in the ledger");
  const bool runs = order.state == OrderState::kHeld;
  // By the wall clock, which may have been set meanwhile: but never longer than the buyer was promised.
  const absl::Duration left = std::max(absl::ZeroDuration(), std::min(order.expires_at - clock_->WallNow(), order.ttl));
  std::unique_ptr<OrderRecord> made(new OrderRecord{.id = order.order_id,
                                                    .item = item,
                                                    .quantity = order.quantity,
                                                    .request_id = order.request_id,
                                                    .buyer = order.buyer,
                                                    .reserved = order.reserved,
                                                    .ttl = order.ttl,
                                                    .expires_at = order.expires_at,
                                                    .deadline = runs ? clock_->Now() + left : Instant::InfiniteFuture(),
                                                    .state = order.state});
  OrderRecord& record = *made;
  const std::unique_lock<ReentrantMutex> buyer_lock = LockBuyer(*item, order.buyer);
  RequestStripe& stripe = StripeOf(order.request_id);
  std::lock_guard lock(stripe.mutex);
  if (FindOrder(order.order_id) != nullptr) return damaged("its id is in the ledger twice");
  if (!stripe.records.emplace(record.request_id, std::move(made)).second)
    return damaged("its request id is not unique");
  last_id_.store(std::max(last_id_.load(std::memory_order_relaxed), order.order_id), std::memory_order_relaxed);
  if (TakesUnits(order.state)) CountTaken(record);
  Index(record);
  if (record.deadline != Instant::InfiniteFuture()) reaper_->Add(record);
  return absl::OkStatus();
}

}  // namespace stockade
