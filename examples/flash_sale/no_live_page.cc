#include "live_page.h"

namespace flash_sale {

absl::StatusOr<std::unique_ptr<LivePage>> LivePage::Bind(uint16_t) {
  return absl::UnimplementedError("this build has no page, because cpp-httplib 0.11 or nlohmann-json 3.11 was missing");
}

}  // namespace flash_sale
