#ifndef STOCKADE_EXAMPLES_FLEET_SALE_STOCKADE_SHOP_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_STOCKADE_SHOP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shop.h"
#include "stockade/inventory/inventory.h"

namespace fleet_sale {

// The shop with Stockade: its stock has segments in MariaDB and one per Redis node, and the ledger in MariaDB pays.
class StockadeShop final : public Shop {
 public:
  // The prefix of the fleet's tables.
  static constexpr char kFleet[] = "sale";
  static constexpr int32_t kLedgerSegments = 4;

  // Creates the tables. Once, before any process connects.
  static absl::Status Prepare(const ServerUrls& urls);
  static absl::StatusOr<std::unique_ptr<StockadeShop>> Connect(const ServerUrls& urls, int64_t stock);

  absl::StatusOr<int64_t> Buy(const std::string& request_id) override;

 private:
  explicit StockadeShop(std::unique_ptr<stockade::Inventory> inventory) : inventory_(std::move(inventory)) {}

  const std::unique_ptr<stockade::Inventory> inventory_;
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_STOCKADE_SHOP_H_
