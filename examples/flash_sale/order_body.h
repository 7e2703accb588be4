#ifndef STOCKADE_EXAMPLES_FLASH_SALE_ORDER_BODY_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_ORDER_BODY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "stockade_shop.h"

namespace flash_sale {

// The body of POST /orders, {"product": 17, "quantity": 1, "buyer": "ann"}, without its key. InvalidArgument says what
// is wrong with it.
absl::StatusOr<Purchase> ParseOrderBody(const std::string& body);

// The body of POST /returns, {"order": "4711", "quantity": 1, "buyer": "ann"}, without its key. Errors as above.
absl::StatusOr<Returned> ParseReturnBody(const std::string& body);

// A key or a buyer: 1 to 64 printable characters of ASCII, no blank.
bool IsToken(std::string_view text);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_ORDER_BODY_H_
