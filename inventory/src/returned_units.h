#ifndef STOCKADE_INVENTORY_RETURNED_UNITS_H_
#define STOCKADE_INVENTORY_RETURNED_UNITS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "order_rules.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// What came back of the orders of a ledger, by some of its changes, which may be all.
class ReturnedUnits {
 public:
  // `orders` ascend by their ids. DataLoss: a change cannot be: its order is not there or not sold, or does not have
  // the units left. O(lines * log(orders)).
  static absl::StatusOr<ReturnedUnits> Of(std::span<const LedgerState::Order> orders,
                                          std::span<const LedgerState::Change> changes) {
    ReturnedUnits all;
    for (const LedgerState::Change& change : changes) {
      const auto damaged = [&](const auto&... what) {
        return absl::DataLossError(base_internal::Concat("return ", change.change_id, what...));
      };
      const auto order = std::ranges::lower_bound(orders, change.order_id, {}, &LedgerState::Order::order_id);
      if (order == orders.end() || order->order_id != change.order_id || order->state != OrderState::kSold) {
        return damaged(" is of order ", change.order_id, ", which is not sold");
      }
      if (!IsReturn(change.kind) || change.lines.empty()) return damaged(" has another kind, or no lines");
      auto& of_order = all.units_[change.order_id];
      for (const ReturnedLine& line : change.lines) {
        const auto sold = std::ranges::find(order->lines, line.sku, &OrderLine::sku);
        int64_t& units = of_order[line.sku];
        if (sold == order->lines.end() || line.quantity < 1 || line.quantity > sold->quantity - units) {
          return damaged(" has ", line.quantity, " units of SKU '", line.sku, "', which its order does not have left");
        }
        units += line.quantity;
      }
    }
    return all;
  }

  int64_t OfLine(uint64_t order, std::string_view sku) const {
    const auto found = units_.find(order);
    if (found == units_.end()) return 0;
    const auto units = found->second.find(sku);
    return units == found->second.end() ? 0 : units->second;
  }

 private:
  std::map<uint64_t, std::map<std::string, int64_t, std::less<>>> units_;  // By order and SKU.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_RETURNED_UNITS_H_
