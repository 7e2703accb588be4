#include "stockade_shop.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "stockade/inventory/refusal.h"
#include "stockade/inventory/sqlite_ledger.h"

namespace flash_sale {

namespace {

// Keeps the API's requests apart from those of the sale's buyers.
constexpr char kApiPrefix[] = "api-";

}  // namespace

absl::StatusOr<std::unique_ptr<StockadeShop>> StockadeShop::Create(const StockadeShopOptions& options,
                                                                   Catalogue* catalogue) {
  auto shop = Open(options, catalogue, AckLog::File::kNew);
  if (!shop.ok()) return shop;
  absl::Status added = (*shop)->inventory_->AddSku(kSaleSku, {.stock = options.stock, .shards = options.shards});
  if (!added.ok()) return added;
  return shop;
}

absl::StatusOr<std::unique_ptr<StockadeShop>> StockadeShop::Reopen(const StockadeShopOptions& options,
                                                                   Catalogue* catalogue) {
  return Open(options, catalogue, AckLog::File::kExisting);
}

absl::StatusOr<std::unique_ptr<StockadeShop>> StockadeShop::Open(const StockadeShopOptions& options,
                                                                 Catalogue* catalogue, AckLog::File file) {
  // First, so that no ledger is ever without one.
  auto acknowledged = AckLog::Open(options.ack_log_path, file);
  if (!acknowledged.ok()) return acknowledged.status();
  auto ledger = stockade::SqliteLedger::Open(options.ledger_path, {.name = "orders"});
  if (!ledger.ok()) return ledger.status();
  // Series for the sale's SKU, which is the first.
  auto inventory = stockade::Inventory::Create({.name = "shop", .ledger = *std::move(ledger), .sku_metrics = 1});
  if (!inventory.ok()) return inventory.status();
  return std::unique_ptr<StockadeShop>(
      new StockadeShop(options, catalogue, *std::move(inventory), *std::move(acknowledged)));
}

StockadeShop::StockadeShop(const StockadeShopOptions& options, Catalogue* catalogue,
                           std::unique_ptr<stockade::Inventory> inventory, std::unique_ptr<AckLog> acknowledged)
    : hot_(options.hot),
      pages_(
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

absl::StatusOr<stockade::Order> StockadeShop::Buy(const Purchase& purchase) {
  const stockade::TakeRequest request{.sku = SkuOf(purchase.product),
                                      .quantity = purchase.quantity,
                                      .request_id = kApiPrefix + purchase.key,
                                      .buyer = purchase.buyer};
  absl::StatusOr<stockade::Order> order = inventory_->Take(request);
  if (stockade::RefusalOf(order.status()) == stockade::Refusal::kUnknownSku) {
    if (absl::StatusOr<Product> product = View(purchase.product); !product.ok()) return product.status();
    absl::Status added =
        inventory_->AddSku(request.sku, {.stock = kShelfUnits, .shards = 1, .per_buyer_limit = kBuyerLimit});
    if (!added.ok() && !absl::IsAlreadyExists(added)) return added;
    order = inventory_->Take(request);
  }
  if (!order.ok()) return order;
  const auto order_id = static_cast<int64_t>(order->id());
  const auto step = order_steps_.Lock(order_id);
  absl::Status kept = acknowledged_->Append({Acknowledgement::Kind::kReserved, order_id, request.request_id});
  if (kept.ok()) kept = acknowledged_->Append({Acknowledgement::Kind::kSold, order_id});
  if (!kept.ok()) return kept;
  return order;
}

absl::Status StockadeShop::TakeBack(const Returned& returned) {
  // The id may be guessed, so it has to be the buyer's.
  const auto order = inventory_->Find({.order = returned.order, .buyer = returned.buyer});
  if (!order.ok()) return order.status();
  return inventory_
      ->Return({.order = returned.order,
                .lines = {{order->lines[0].sku, returned.quantity}},
                .request_id = kApiPrefix + returned.key})
      .status();
}

absl::StatusOr<stockade::SkuSnapshot> StockadeShop::Stock(ProductId id) {
  absl::StatusOr<stockade::SkuSnapshot> snapshot = inventory_->Snapshot(SkuOf(id));
  if (!absl::IsNotFound(snapshot.status())) return snapshot;
  // Not ordered yet: its shelf is full, if there is such a product.
  if (absl::StatusOr<Product> product = View(id); !product.ok()) return product.status();
  return stockade::SkuSnapshot{.sku = SkuOf(id),
                               .granted = kShelfUnits,
                               .available = kShelfUnits,
                               .per_buyer_limit = kBuyerLimit,
                               .shards = 1,
                               .shard_units = {kShelfUnits}};
}

std::string StockadeShop::SkuOf(ProductId id) const { return id == hot_ ? kSaleSku : absl::StrCat("product-", id); }

}  // namespace flash_sale
