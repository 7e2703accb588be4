#include "order_body.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace flash_sale {
namespace {

using nlohmann::json;

constexpr uint64_t kMostProduct = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMostQuantity = 1'000;
constexpr uint64_t kMostArrivalSeconds = 60;

// Of the object itself 1: none of its values has anything inside.
constexpr int kMostDepth = 1;

absl::StatusOr<uint64_t> Number(const json& value, const char* field, uint64_t least, uint64_t most) {
  // Unsigned is what the parser makes of all that have no minus, no fraction and no exponent, and are not too large.
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least || value.get<uint64_t>() > most) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is not a whole number from ", least, " to ", most));
  }
  return value.get<uint64_t>();
}

// An object whose fields are all plain values, each there once.
absl::Status ParsePlainObject(const std::string& body, json& object) {
  // RFC 8259: a sender must not add one. The parser skips it, another reader of the same body may not.
  if (body.starts_with("\xef\xbb\xbf")) return absl::InvalidArgumentError("the body begins with a byte order mark");
  // The parser takes a NUL for the end of the text, and would ignore what follows.
  if (body.find('\0') != std::string::npos) return absl::InvalidArgumentError("the body has a NUL byte");
  bool too_deep = false;
  bool twice = false;  // The parser would keep the last; another reader of the same body may keep the first.
  std::set<std::string> fields;
  const auto plain = [&](int depth, json::parse_event_t event, json& parsed) {
    const bool opens = event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth >= kMostDepth) too_deep = true;
    if (event == json::parse_event_t::key && !fields.insert(parsed.get<std::string>()).second) twice = true;
    return !too_deep;
  };
  object = json::parse(body, plain, /*allow_exceptions=*/false);
  if (too_deep) return absl::InvalidArgumentError("a field of the body is an object or an array");
  if (object.is_discarded()) return absl::InvalidArgumentError("the body is not JSON");
  if (!object.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  if (twice) return absl::InvalidArgumentError("the body has a field twice");
  return absl::OkStatus();
}

}  // namespace

bool IsToken(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

absl::StatusOr<Purchase> ParseOrderBody(const std::string& body) {
  json order;
  if (absl::Status parsed = ParsePlainObject(body, order); !parsed.ok()) return parsed;

  Purchase purchase;
  bool has_product = false;
  for (const auto& [field, value] : order.items()) {
    if (field == "product") {
      const absl::StatusOr<uint64_t> product = Number(value, "product", 0, kMostProduct);
      if (!product.ok()) return product.status();
      purchase.product = *product;
      has_product = true;
    } else if (field == "quantity") {
      const absl::StatusOr<uint64_t> quantity = Number(value, "quantity", 1, kMostQuantity);
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

absl::StatusOr<absl::Duration> ParseSaleBody(const std::string& body) {
  json sale;
  if (absl::Status parsed = ParsePlainObject(body, sale); !parsed.ok()) return parsed;
  uint64_t seconds = 0;
  for (const auto& [field, value] : sale.items()) {
    if (field != "arrival_seconds") {
      return absl::InvalidArgumentError("the body has a field other than arrival_seconds");
    }
    const absl::StatusOr<uint64_t> arrival = Number(value, "arrival_seconds", 0, kMostArrivalSeconds);
    if (!arrival.ok()) return arrival.status();
    seconds = *arrival;
  }
  return absl::Seconds(seconds);
}

}  // namespace flash_sale
