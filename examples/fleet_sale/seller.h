#ifndef STOCKADE_EXAMPLES_FLEET_SALE_SELLER_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_SELLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shop.h"

namespace fleet_sale {

enum class Half { kNaive, kStockade };

// One selling process.
struct SellerPlan {
  Half half = Half::kNaive;
  int number = 0;           // Of kProcesses.
  int64_t stock = 0;        // Of the product on sale.
  std::string shared = {};  // The path of the SharedSale.
  ServerUrls urls = {};

  // As the arguments of this program, and back.
  std::vector<std::string> Argv() const;
  static absl::StatusOr<SellerPlan> Parse(int argc, char** argv);
};

// Serves the buyers of this process that have no answer yet, until all have one. A buyer whose request fails sends it
// again, with the same id. Exits with 2 if the shop cannot be opened.
void RunSeller(const SellerPlan& plan);

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_SELLER_H_
