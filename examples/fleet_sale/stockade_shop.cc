#include "stockade_shop.h"

#include "stockade/inventory/fleet_inventory.h"

namespace fleet_sale {
namespace {

stockade::FleetInventoryOptions OptionsOf(const ServerUrls& urls) {
  // The servers run on this machine as well, and it may be a busy one.
  constexpr absl::Duration kPatience = absl::Seconds(30);
  return {.ledger = urls.ledger,
          .fleet = StockadeShop::kFleet,
          .patience = kPatience,
          .redis = urls.redis,
          .metrics = nullptr,
          .connect_timeout = kPatience};
}

}  // namespace

absl::Status StockadeShop::Prepare(const ServerUrls& urls) {
  return stockade::FleetInventory::Migrate(OptionsOf(urls));
}

absl::StatusOr<std::unique_ptr<StockadeShop>> StockadeShop::Connect(const ServerUrls& urls, int64_t stock) {
  absl::StatusOr<std::unique_ptr<stockade::Inventory>> inventory = stockade::FleetInventory::Connect(OptionsOf(urls));
  if (!inventory.ok()) return inventory.status();
  const absl::Status added =
      (*inventory)->EnsureSku(kSku, {.stock = stock, .shards = kLedgerSegments, .redis_segments = true});
  if (!added.ok()) return added;
  return std::unique_ptr<StockadeShop>(new StockadeShop(*std::move(inventory)));
}

absl::StatusOr<int64_t> StockadeShop::Buy(const std::string& request_id) {
  const absl::StatusOr<stockade::Order> order = inventory_->Take({.sku = kSku, .request_id = request_id});
  if (!order.ok()) return order.status();
  return static_cast<int64_t>(order->id());
}

}  // namespace fleet_sale
