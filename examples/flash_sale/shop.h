#ifndef STOCKADE_EXAMPLES_FLASH_SALE_SHOP_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_SHOP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catalogue.h"

namespace flash_sale {

// Names the product on sale in both halves' order databases.
inline constexpr char kSaleSku[] = "flash-sale";

// How long a page other than the sale's may be cached.
inline constexpr absl::Duration kPageTtl = absl::Minutes(5);

// The shop that the load drives; both halves implement it. Thread-safe.
class Shop {
 public:
  virtual ~Shop() = default;

  // A page view.
  virtual absl::StatusOr<Product> View(ProductId id) = 0;

  // Sets one unit of the sale's product aside for `ttl`: its order id. ResourceExhausted: there is no unit to sell now.
  virtual absl::StatusOr<int64_t> Reserve(const std::string& request_id, absl::Duration ttl) = 0;
  // FailedPrecondition: the reservation is no longer there.
  virtual absl::Status Commit(int64_t order_id) = 0;
  virtual absl::Status Cancel(int64_t order_id) = 0;

  // Units that reservations hold now.
  virtual absl::StatusOr<int64_t> Held() = 0;
  // Units on the shelf now, as the shop believes.
  virtual absl::StatusOr<int64_t> Left() = 0;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_SHOP_H_
