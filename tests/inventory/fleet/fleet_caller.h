#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_CALLER_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_CALLER_H_

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    return CallBy([&shop](const auto& call) { return call(shop); }, op);
  }
  // `ask` invokes what it gets with an inventory, more than once if an answer is not the last one, and returns that.
  template <typename Ask>
  bool CallBy(const Ask& ask, FleetOperation& op) {
    const std::string id = base_internal::Concat(ids_, op.request);
    const std::string& sku = skus_[op.item];
    const absl::Duration ttl = op.is_short ? kShortTtl : absl::Hours(1);
    const std::vector<OrderLine> lines = {{sku, op.units}, {skus_[1 - op.item], op.second_units}};
    switch (op.kind) {
      case FleetOperation::kTake: {
        const TakeRequest take{.sku = sku, .quantity = op.units, .request_id = id};
        Note(ask([&](Inventory& shop) { return shop.Take(take); }), op);
        return true;
      }
      case FleetOperation::kReserve: {
        const ReserveRequest reserve{.sku = sku, .quantity = op.units, .request_id = id, .ttl = ttl};
        Note(ask([&](Inventory& shop) { return shop.Reserve(reserve); }), op);
        return true;
      }
      case FleetOperation::kBasket: {
        const BasketRequest basket{.lines = lines, .request_id = id, .ttl = ttl};
        Note(ask([&](Inventory& shop) { return shop.ReserveBasket(basket); }), op);
        return true;
      }
      case FleetOperation::kTakeBack: {
        op.order = sold_[op.request];
        if (op.order == 0) return false;
        const ReturnRequest back{
            .order = op.order, .lines = {{sku, op.units}}, .request_id = base_internal::Concat(ids_, "back", op.self)};
        const absl::Status answer = ask([&](Inventory& shop) { return shop.Return(back).status(); });
        EXPECT_TRUE(answer.ok() || RefusalOf(answer) == Refusal::kTooMany) << answer;
        op.answer = answer.ok() ? FleetOperation::kDone : FleetOperation::kOver;
        return true;
      }
      case FleetOperation::kCommit:
      case FleetOperation::kCancel:
        op.order = OrderOf(op.request);
        if (op.order == 0) return false;
        if (op.kind == FleetOperation::kCommit) sold_[op.request] = op.order;
        ExpectDone(ask([&](Inventory& shop) {
          return op.kind == FleetOperation::kCommit ? shop.Commit(op.order) : shop.Cancel(op.order);
        }));
        orders_[op.request] = kOver;
        return true;
      case FleetOperation::kExtend: {
        op.order = OrderOf(op.request);
        if (op.order == 0) return false;
        const ExtendRequest extend{.order = op.order, .ttl = 2 * kShortTtl};
        const absl::Status answer = ask([&](Inventory& shop) { return shop.Extend(extend).status(); });
        EXPECT_TRUE(answer.ok() || (op.is_short && RefusalOf(answer) == Refusal::kExpired)) << answer;
        op.answer = answer.ok() ? FleetOperation::kDone : FleetOperation::kOver;
        return true;
      }
      case FleetOperation::kRestock: {
        const RestockRequest restock{.sku = sku, .quantity = op.units, .request_id = id};
        ExpectDone(ask([&](Inventory& shop) { return shop.Restock(restock); }));
        return true;
      }
      case FleetOperation::kRead:
        op.units = ask([&](Inventory& shop) { return shop.Available(sku); }).value_or(-1);
        return true;
      case FleetOperation::kReshard:
        ExpectDone(ask([&](Inventory& shop) { return shop.Reshard(sku, static_cast<int32_t>(op.units)); }));
        return true;
      case FleetOperation::kExpiry:
      case FleetOperation::kReturn: return false;
    }
    return false;
  }

 private:
  static constexpr OrderId kOver = UINT64_MAX;  // Ended, which is done once.

  static void ExpectDone(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; }
  template <typename Answer>
  void Note(const Answer& answer, FleetOperation& op) {
    if (answer.ok()) {
      op.order = answer->id();
      if (orders_[op.request] == 0) orders_[op.request] = answer->id();
      if (op.kind == FleetOperation::kTake) sold_[op.request] = answer->id();
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
  std::array<OrderId, FleetState::kRequests> sold_ = {};
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_CALLER_H_
