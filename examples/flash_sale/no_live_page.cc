#include "live_page.h"

namespace flash_sale {

absl::StatusOr<std::unique_ptr<LivePage>> LivePage::Bind(uint16_t) {
  return absl::UnimplementedError("this build has no page: cpp-httplib or nlohmann-json was not there");
}

}  // namespace flash_sale
