#include "absl/status/status.h"
#include "sale_page.h"

namespace fleet_sale {

absl::StatusOr<std::unique_ptr<SalePage>> SalePage::Start(uint16_t, const SaleBoard*, examples::SaleRequests*) {
  return absl::UnimplementedError("this build has no page, because cpp-httplib 0.11 or nlohmann-json 3.11 was missing");
}

}  // namespace fleet_sale
