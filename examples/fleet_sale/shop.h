#ifndef STOCKADE_EXAMPLES_FLEET_SALE_SHOP_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_SHOP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fleet_sale {

// The product on sale, in both halves.
inline constexpr char kSku[] = "flash-sale";

// The servers that both halves use.
struct ServerUrls {
  std::string database_socket = {};
  std::string ledger = {};
  std::vector<std::string> redis = {};
};

// One process of the shop. Both halves implement it. Thread-safe.
class Shop {
 public:
  virtual ~Shop() = default;

  // Sells one unit: the id of the order. ResourceExhausted: sold out. Any other error: the buyer should try again.
  virtual absl::StatusOr<int64_t> Buy(const std::string& request_id) = 0;
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_SHOP_H_
