// A request for several SKUs: made into lines of which each SKU is one, in ascending order.

#include <algorithm>

#include "core.h"
#include "stockade/base/strings.h"

namespace stockade {

using base_internal::Concat;

Inventory::Core::GrantResult Inventory::Core::Grant(const BasketRequest& request) {
  absl::StatusOr<std::vector<Line>> lines = SumUp(request);
  if (!lines.ok()) return {.order = std::move(lines).status(), .start = clock_->Now()};
  return GrantLines({.kind = inventory_internal::OrderKind::kBasket,
                     .lines = *lines,
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = request.ttl});
}

absl::StatusOr<std::vector<Inventory::Core::Line>> Inventory::Core::SumUp(const BasketRequest& request) const {
  // First, because the other texts contain the id.
  if (absl::Status valid = CheckNames(request.request_id, request.buyer); !valid.ok()) return valid;
  if (request.lines.empty()) {
    return Refused(Refusal::kInvalid, Concat("the basket of request '", request.request_id, "' has no lines"));
  }
  if (request.lines.size() > kMaxBasketLines) {
    return Refused(Refusal::kInvalid,
                   Concat("the basket of request '", request.request_id, "' has ", request.lines.size(),
                          " lines; at most ", kMaxBasketLines, " are allowed"));
  }
  std::vector<Line> lines;
  lines.reserve(request.lines.size());
  for (const OrderLine& line : request.lines) {
    absl::Status valid = CheckLine(request.request_id, line.sku, line.quantity);
    if (!valid.ok()) return valid;
    lines.push_back({.sku = line.sku, .quantity = line.quantity});
  }
  std::ranges::sort(lines, {}, &Line::sku);
  size_t last = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].sku != lines[last].sku) {
      lines[++last] = lines[i];
    } else if (__builtin_add_overflow(lines[last].quantity, lines[i].quantity, &lines[last].quantity)) {
      return Refused(Refusal::kInvalid, Concat("the basket of request '", request.request_id, "' wants more units of '",
                                               lines[i].sku, "' than can be counted"));
    }
  }
  lines.resize(last + 1);
  return lines;
}

}  // namespace stockade
