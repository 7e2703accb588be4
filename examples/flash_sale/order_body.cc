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

// Fields of both bodies.
template <class Request>
absl::Status TakeQuantity(const json& value, Request& request) {
  const absl::StatusOr<uint64_t> quantity = examples::WholeNumber(value, "quantity", 1, kMostQuantity);
  if (quantity.ok()) request.quantity = static_cast<int64_t>(*quantity);
  return quantity.status();
}

template <class Request>
absl::Status TakeBuyer(const json& value, Request& request) {
  if (!value.is_string() || !IsToken(value.get_ref<const std::string&>())) {
    return absl::InvalidArgumentError("buyer is not a string of 1 to 64 printable characters without blanks");
  }
  request.buyer = value.get<std::string>();
  return absl::OkStatus();
}

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
    absl::Status taken;
    if (field == "product") {
      const absl::StatusOr<uint64_t> product = examples::WholeNumber(value, "product", 0, kMostProduct);
      if (!product.ok()) return product.status();
      purchase.product = *product;
      has_product = true;
    } else if (field == "quantity") {
      taken = TakeQuantity(value, purchase);
    } else if (field == "buyer") {
      taken = TakeBuyer(value, purchase);
    } else {
      taken = absl::InvalidArgumentError("the body has a field other than product, quantity and buyer");
    }
    if (!taken.ok()) return taken;
  }
  if (!has_product) return absl::InvalidArgumentError("product is missing");
  if (purchase.buyer.empty()) return absl::InvalidArgumentError("buyer is missing");
  return purchase;
}

absl::StatusOr<Returned> ParseReturnBody(const std::string& body) {
  json fields;
  if (absl::Status parsed = examples::ParsePlainObject(body, fields); !parsed.ok()) return parsed;

  Returned returned;
  for (const auto& [field, value] : fields.items()) {
    absl::Status taken;
    if (field == "order") {
      // A text, because a JSON number has 53 bits for many readers.
      const auto order =
          stockade::ParseOrderId(value.is_string() ? std::string_view(value.get_ref<const std::string&>()) : "");
      if (!order.ok()) return absl::InvalidArgumentError("order is not a string of digits, as an order was answered");
      returned.order = *order;
    } else if (field == "quantity") {
      taken = TakeQuantity(value, returned);
    } else if (field == "buyer") {
      taken = TakeBuyer(value, returned);
    } else {
      taken = absl::InvalidArgumentError("the body has a field other than order, quantity and buyer");
    }
    if (!taken.ok()) return taken;
  }
  if (returned.order == 0) return absl::InvalidArgumentError("order is missing");
  if (returned.buyer.empty()) return absl::InvalidArgumentError("buyer is missing");
  return returned;
}

}  // namespace flash_sale
