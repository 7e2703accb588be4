#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_CALLER_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_CALLER_H_

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "inventory/fleet/fleet_history.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/inventory.h"

namespace stockade::testing {

// Makes the calls of one thread in one history.
class FleetCaller {
 public:
  static constexpr absl::Duration kShortTtl = absl::Milliseconds(2);

  // `ids`: with which its request ids begin.
  FleetCaller(std::array<std::string, 2> skus, std::string ids) : skus_(std::move(skus)), ids_(std::move(ids)) {}

  // The order that a request of this thread got and that it has not ended; 0: none.
  OrderId OrderOf(size_t request) const { return orders_[request] == kOver ? 0 : orders_[request]; }

  // Notes the answer in `op`. False: the call was not made, because there is nothing to end.
  bool Call(Inventory& shop, FleetOperation& op) {
    const std::string id = base_internal::Concat(ids_, op.request);
    const absl::Duration ttl = op.is_short ? kShortTtl : absl::Hours(1);
    switch (op.kind) {
      case FleetOperation::kTake:
        Note(shop.Take({.sku = skus_[op.item], .quantity = op.units, .request_id = id}), op);
        return true;
      case FleetOperation::kReserve:
        Note(shop.Reserve({.sku = skus_[op.item], .quantity = op.units, .request_id = id, .ttl = ttl}), op);
        return true;
      case FleetOperation::kBasket:
        Note(shop.ReserveBasket({.lines = {{skus_[op.item], op.units}, {skus_[1 - op.item], op.second_units}},
                                 .request_id = id,
                                 .ttl = ttl}),
             op);
        return true;
      case FleetOperation::kCommit:
      case FleetOperation::kCancel: {
        const OrderId order = OrderOf(op.request);
        if (order == 0) return false;
        const absl::Status ended = op.kind == FleetOperation::kCommit ? shop.Commit(order) : shop.Cancel(order);
        EXPECT_TRUE(ended.ok()) << ended;
        orders_[op.request] = kOver;
        return true;
      }
      case FleetOperation::kRestock: {
        const absl::Status restocked = shop.Restock(skus_[op.item], op.units);
        EXPECT_TRUE(restocked.ok()) << restocked;
        return true;
      }
      case FleetOperation::kRead: op.units = shop.Available(skus_[op.item]).value_or(-1); return true;
      case FleetOperation::kReshard: {
        const absl::Status resharded = shop.Reshard(skus_[op.item], static_cast<int32_t>(op.units));
        EXPECT_TRUE(resharded.ok()) << resharded;
        return true;
      }
      case FleetOperation::kExpiry:
      case FleetOperation::kReturn: return false;
    }
    return false;
  }

 private:
  static constexpr OrderId kOver = UINT64_MAX;  // Ended, which is done once.

  template <typename Answer>
  void Note(const Answer& answer, FleetOperation& op) {
    if (answer.ok()) {
      if (orders_[op.request] == 0) orders_[op.request] = answer->id();
      return;
    }
    const Refusal refusal = RefusalOf(answer.status());
    EXPECT_TRUE(refusal == Refusal::kSoldOut || refusal == Refusal::kAllHeld) << answer.status();
    op.answer = refusal == Refusal::kSoldOut ? FleetOperation::kSoldOut : FleetOperation::kAllHeld;
    const std::string_view message(answer.status().message().data(), answer.status().message().size());
    op.refused = message.find("'" + skus_[0] + "'") != std::string_view::npos ? 0 : 1;
  }

  const std::array<std::string, 2> skus_;
  const std::string ids_;
  std::array<OrderId, FleetState::kRequests> orders_ = {};
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_CALLER_H_
