#ifndef STOCKADE_EXAMPLES_FLASH_SALE_SALE_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_SALE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catalogue.h"
#include "common/progress.h"
#include "hot_key_log.h"
#include "load.h"
#include "report.h"
#include "sale_board.h"
#include "shop_door.h"
#include "stockade_shop.h"
#include "workspace.h"

namespace flash_sale {

using examples::Progress;

// The parameters of a sale. Everything that it points to must outlive the sale.
struct SaleSetup {
  const Workspace* files = nullptr;
  LoadPlan plan = {};
  absl::Duration hot_ttl = {};
  int32_t shards = 0;
  SaleBoard* board = nullptr;
  ShopDoor* door = nullptr;
  Progress* progress = nullptr;
};

struct SaleReport {
  HalfReport naive;
  HalfReport stockade;
};

// One sale: both halves, one after the other, under the same load. Everything that a half counts or is judged by is
// made for this sale, so that nothing is left of an earlier one.
class Sale {
 public:
  // Makes the Stockade shop, whose files must not be there yet, and opens the door to it.
  static absl::StatusOr<std::unique_ptr<Sale>> Create(const SaleSetup& setup);
  ~Sale() { setup_.door->Close(); }
  Sale(const Sale&) = delete;
  Sale& operator=(const Sale&) = delete;

  // Call it once. `reopen`: after the audit the shop goes on from its ledger.
  absl::StatusOr<SaleReport> Run(bool reopen);

 private:
  explicit Sale(const SaleSetup& setup);

  StockadeShopOptions ShopOptions() const;
  absl::StatusOr<HalfReport> RunNaive();
  absl::StatusOr<HalfReport> RunStockade(bool reopen);

  const SaleSetup setup_;
  HotKeyLog log_;  // This and the next are of the Stockade half.
  Catalogue catalogue_;
  std::unique_ptr<StockadeShop> shop_;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_SALE_H_
