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
#include "stockade/inventory/order.h"
#include "stockade/locks/keyed_mutex.h"

namespace flash_sale {

struct StockadeShopOptions {
  std::string ledger_path;
  std::string ack_log_path;
  ProductId hot = 0;
  absl::Duration hot_ttl;
  int64_t stock = 0;
  int32_t shards = 0;
};

struct Purchase {
  ProductId product = 0;
  int64_t quantity = 1;
  std::string key;  // Names the request.
  std::string buyer;
};

struct Returned {
  stockade::OrderId order = 0;
  int64_t quantity = 1;
  std::string key;  // As above.
  std::string buyer;
};

// The shop on Stockade: pages through a LoadingCache, orders through an Inventory with its ledger in SQLite,
// the steps of one order one at a time through a KeyedMutex.
class StockadeShop final : public Shop {
 public:
  static constexpr int64_t kShelfUnits = 100'000;
  static constexpr int64_t kBuyerLimit = 10;

  // Makes the ledger, which must not be there yet. `catalogue` must outlive the shop.
  static absl::StatusOr<std::unique_ptr<StockadeShop>> Create(const StockadeShopOptions& options, Catalogue* catalogue);
  // Goes on from the ledger that an earlier shop left.
  static absl::StatusOr<std::unique_ptr<StockadeShop>> Reopen(const StockadeShopOptions& options, Catalogue* catalogue);

  absl::StatusOr<Product> View(ProductId id) override;
  absl::StatusOr<int64_t> Reserve(const std::string& request_id, absl::Duration ttl) override;
  absl::Status Commit(int64_t order_id) override;
  absl::Status Cancel(int64_t order_id) override;
  absl::StatusOr<int64_t> Held() override;
  absl::StatusOr<int64_t> Left() override;

  // For the API, which sells all products of the catalogue. Of those that are not the sale's there are kShelfUnits
  // each, of which a buyer gets kBuyerLimit; a product's SKU is made with its first order.

  // Sells at once, and once for a `key`. NotFound: no such product. Otherwise as stockade::Inventory::Take().
  absl::StatusOr<stockade::Order> Buy(const Purchase& purchase);
  // Takes units of an order of Buy() back, once for a `key`. NotFound: the buyer has no such order. Otherwise as
  // stockade::Inventory::Return().
  absl::Status TakeBack(const Returned& returned);
  // NotFound: no such product.
  absl::StatusOr<stockade::SkuSnapshot> Stock(ProductId id);

 private:
  StockadeShop(const StockadeShopOptions& options, Catalogue* catalogue, std::unique_ptr<stockade::Inventory> inventory,
               std::unique_ptr<AckLog> acknowledged);

  static absl::StatusOr<std::unique_ptr<StockadeShop>> Open(const StockadeShopOptions& options, Catalogue* catalogue,
                                                            AckLog::File file);

  std::string SkuOf(ProductId id) const;

  const ProductId hot_;
  stockade::LoadingCache<ProductId, Product> pages_;
  const std::unique_ptr<stockade::Inventory> inventory_;
  // Held from a call on an order to the log's line about it, so that the lines of one order are in the order of what
  // happened to it.
  stockade::KeyedMutex<int64_t> order_steps_{stockade::LockOptions{.name = "order_steps"}};
  const std::unique_ptr<AckLog> acknowledged_;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_STOCKADE_SHOP_H_
