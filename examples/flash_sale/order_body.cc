#include "order_body.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/json_body.h"

namespace flash_sale {
namespace {

using nlohmann::json;

constexpr uint64_t kMostProduct = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMostQuantity = 1'000;

}  // namespace

bool IsToken(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

absl::StatusOr<Purchase> ParseOrderBody(const std::string& body) {
  json order;
  if (absl::Status parsed = examples::ParsePlainObject(body, order); !parsed.ok()) return parsed;

  Purchase purchase;
  bool has_product = false;
  for (const auto& [field, value] : order.items()) {
    if (field == "product") {
      const absl::StatusOr<uint64_t> product = examples::WholeNumber(value, "product", 0, kMostProduct);
      if (!product.ok()) return product.status();
      purchase.product = *product;
      has_product = true;
    } else if (field == "quantity") {
      const absl::StatusOr<uint64_t> quantity = examples::WholeNumber(value, "quantity", 1, kMostQuantity);
      if (!quantity.ok()) return quantity.status();
      purchase.quantity = static_cast<int64_t>(*quantity);
    } else if (field == "buyer") {
      if (!value.is_string() || !IsToken(value.get_ref<const std::string&>())) {
        return absl::InvalidArgumentError("buyer is not a string of 1 to 64 printable characters without blanks");
      }
      purchase.buyer = value.get<std::string>();
    } else {
      return absl::InvalidArgumentError("the body has a field other than product, quantity and buyer");
    }
  }
  if (!has_product) return absl::InvalidArgumentError("product is missing");
  if (purchase.buyer.empty()) return absl::InvalidArgumentError("buyer is missing");
  return purchase;
}

}  // namespace flash_sale
