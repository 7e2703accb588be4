#include "stockade/inventory/order.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {

std::string OrderIdText(OrderId id) { return base_internal::Concat(id); }

absl::StatusOr<OrderId> ParseOrderId(std::string_view text) {
  constexpr size_t kMostDigits = 20;
  OrderId id = 0;
  // SimpleAtoi() also takes blanks, a sign and leading zeros.
  if (text.size() <= kMostDigits && absl::SimpleAtoi(base_internal::AbslView(text), &id) && id != 0 &&
      OrderIdText(id) == text) {
    return id;
  }
  return absl::InvalidArgumentError(
      base_internal::Concat("'", base_internal::Printable(text, 100), "' is not the id of an order"));
}

}  // namespace stockade
