#ifndef STOCKADE_EXAMPLES_FLASH_SALE_STOCKADE_SHOP_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_STOCKADE_SHOP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ack_log.h"
#include "catalogue.h"
#include "shop.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"

namespace flash_sale {

struct StockadeShopOptions {
  std::string ledger_path;
  std::string ack_log_path;
  ProductId hot = 0;
  absl::Duration hot_ttl;
  int64_t stock = 0;
  int32_t shards = 0;
};

// The shop on Stockade: pages through a LoadingCache, orders through an Inventory with its ledger in SQLite.
class StockadeShop final : public Shop {
 public:
  // Makes the ledger, which must not be there yet. `catalogue` must outlive the shop.
  static absl::StatusOr<std::unique_ptr<StockadeShop>> Create(const StockadeShopOptions& options, Catalogue* catalogue);

  absl::StatusOr<Product> View(ProductId id) override;
  absl::StatusOr<int64_t> Reserve(const std::string& request_id, absl::Duration ttl) override;
  absl::Status Commit(int64_t order_id) override;
  absl::Status Cancel(int64_t order_id) override;
  absl::StatusOr<int64_t> Held() override;

 private:
  StockadeShop(const StockadeShopOptions& options, Catalogue* catalogue, std::unique_ptr<stockade::Inventory> inventory,
               std::unique_ptr<AckLog> acknowledged);

  stockade::LoadingCache<ProductId, Product> pages_;
  const std::unique_ptr<stockade::Inventory> inventory_;
  const std::unique_ptr<AckLog> acknowledged_;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_STOCKADE_SHOP_H_
