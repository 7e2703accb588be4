#ifndef STOCKADE_EXAMPLES_FLEET_SALE_SALE_PAGE_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_SALE_PAGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/sale_requests.h"
#include "sale_board.h"

namespace fleet_sale {

// The page of the sale on a port of 127.0.0.1. Without cpp-httplib and nlohmann-json the build has none.
class SalePage {
 public:
  // 0: a free port. `board` and `requests` must outlive the page. Unimplemented: this build has no page. Unavailable:
  // the port is in use.
  static absl::StatusOr<std::unique_ptr<SalePage>> Start(uint16_t port, const SaleBoard* board,
                                                         examples::SaleRequests* requests);
  virtual ~SalePage() = default;

  virtual uint16_t port() const = 0;
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_SALE_PAGE_H_
