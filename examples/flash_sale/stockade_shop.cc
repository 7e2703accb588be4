#include "stockade_shop.h"

#include <utility>

#include "stockade/inventory/refusal.h"
#include "stockade/inventory/sqlite_ledger.h"

namespace flash_sale {

absl::StatusOr<std::unique_ptr<StockadeShop>> StockadeShop::Create(const StockadeShopOptions& options,
                                                                   Catalogue* catalogue) {
  // First, so that no ledger is ever without one.
  auto acknowledged = AckLog::Create(options.ack_log_path);
  if (!acknowledged.ok()) return acknowledged.status();
  auto ledger = stockade::SqliteLedger::Open(options.ledger_path, {.name = "orders"});
  if (!ledger.ok()) return ledger.status();
  auto inventory = stockade::Inventory::Create({.name = "shop", .ledger = *std::move(ledger)});
  if (!inventory.ok()) return inventory.status();
  absl::Status added = (*inventory)->AddSku(kSaleSku, {.stock = options.stock, .shards = options.shards});
  if (!added.ok()) return added;
  return std::unique_ptr<StockadeShop>(
      new StockadeShop(options, catalogue, *std::move(inventory), *std::move(acknowledged)));
}

StockadeShop::StockadeShop(const StockadeShopOptions& options, Catalogue* catalogue,
                           std::unique_ptr<stockade::Inventory> inventory, std::unique_ptr<AckLog> acknowledged)
    : pages_(
          {.name = "products", .max_weight = 1'000'000, .ttl = kPageTtl},
          [catalogue, hot = options.hot, hot_ttl = options.hot_ttl](const ProductId& id, stockade::LoadContext& load) {
            if (id == hot) load.set_ttl(hot_ttl);
            return catalogue->Fetch(id);
          }),
      inventory_(std::move(inventory)),
      acknowledged_(std::move(acknowledged)) {}

absl::StatusOr<Product> StockadeShop::View(ProductId id) {
  absl::StatusOr<stockade::CacheHandle<Product>> page = pages_.Get(id);
  if (!page.ok()) return page.status();
  return **page;
}

absl::StatusOr<int64_t> StockadeShop::Reserve(const std::string& request_id, absl::Duration ttl) {
  absl::StatusOr<stockade::Reservation> reservation =
      inventory_->Reserve({.sku = kSaleSku, .quantity = 1, .request_id = request_id, .ttl = ttl});
  if (!reservation.ok()) {
    const stockade::Refusal refusal = stockade::RefusalOf(reservation.status());
    if (refusal != stockade::Refusal::kAllHeld) return reservation.status();
    return absl::ResourceExhaustedError(reservation.status().message());
  }
  const auto order_id = static_cast<int64_t>(reservation->id());
  const auto step = order_steps_.Lock(order_id);
  absl::Status kept = acknowledged_->Append({Acknowledgement::Kind::kReserved, order_id, request_id});
  if (!kept.ok()) return kept;
  return order_id;
}

absl::Status StockadeShop::Commit(int64_t order_id) {
  const auto step = order_steps_.Lock(order_id);
  absl::Status sold = inventory_->Commit(static_cast<stockade::OrderId>(order_id));
  if (!sold.ok()) return sold;
  return acknowledged_->Append({Acknowledgement::Kind::kSold, order_id});
}

absl::Status StockadeShop::Cancel(int64_t order_id) {
  const auto step = order_steps_.Lock(order_id);
  return inventory_->Cancel(static_cast<stockade::OrderId>(order_id));
}

absl::StatusOr<int64_t> StockadeShop::Held() {
  const absl::StatusOr<stockade::StockFigures> figures = inventory_->Figures(kSaleSku);
  if (!figures.ok()) return figures.status();
  return figures->held;
}

absl::StatusOr<int64_t> StockadeShop::Left() {
  const absl::StatusOr<stockade::SkuSnapshot> snapshot = inventory_->Snapshot(kSaleSku);
  if (!snapshot.ok()) return snapshot.status();
  return snapshot->available;
}

}  // namespace flash_sale
