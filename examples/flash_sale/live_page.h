#ifndef STOCKADE_EXAMPLES_FLASH_SALE_LIVE_PAGE_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_LIVE_PAGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/sale_requests.h"
#include "sale_board.h"
#include "shop_door.h"

namespace flash_sale {

// The page, the API and /metrics on one port of 127.0.0.1. Without cpp-httplib and nlohmann-json the build has none.
class LivePage {
 public:
  // 0: a free port. Unimplemented: this build has no page. Unavailable: the port cannot be had.
  static absl::StatusOr<std::unique_ptr<LivePage>> Bind(uint16_t port);
  virtual ~LivePage() = default;

  virtual uint16_t port() const = 0;
  // Requests are answered from now on, also those that came before. All must outlive the page.
  virtual void Start(const SaleBoard* board, ShopDoor* door, examples::SaleRequests* requests) = 0;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_LIVE_PAGE_H_
