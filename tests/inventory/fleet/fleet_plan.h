#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_PLAN_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_PLAN_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "inventory/fleet/fleet_caller.h"
#include "inventory/fleet/fleet_history.h"

namespace stockade::testing {

// A small history of three processes, which a seed decides, over the stock of one SKU, `a`, or two, `b` as well.
class FleetPlan {
 public:
  static constexpr size_t kProcesses = 3;
  static constexpr size_t kOperationsEach = 4;

  explicit FleetPlan(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t bound) { return static_cast<int64_t>(random() % bound); };
    first.units[0] = first.unsold[0] = below(5);
    first.units[1] = first.unsold[1] = below(3);
    shards = {1 + static_cast<int32_t>(below(3)), 1};
    for (size_t i = 0; i < operations.size(); ++i) {
      FleetOperation& op = operations[i];
      const size_t first_of_thread = i / kOperationsEach * kOperationsEach;
      using enum FleetOperation::Kind;
      static constexpr FleetOperation::Kind kKinds[] = {kTake,   kTake,    kReserve, kReserve, kReserve,
                                                        kBasket, kCommit,  kCancel,  kCancel,  kRestock,
                                                        kRead,   kReshard, kExtend,  kTakeBack};
      op.kind = kKinds[below(std::size(kKinds))];
      op.item = below(4) == 0 ? 1 : 0;  // Mostly one, so that calls meet.
      op.units = 1 + below(2);
      op.second_units = op.kind == kBasket ? 1 : 0;
      op.request = i;
      op.is_short = (op.kind == kReserve || op.kind == kBasket) && below(3) == 0;
      op.self = i;
      const bool of_order = op.kind == kCommit || op.kind == kCancel || op.kind == kExtend || op.kind == kTakeBack;
      if (of_order && i > first_of_thread) {
        op.request = first_of_thread + static_cast<size_t>(below(i - first_of_thread));
        op.is_short = op.kind == kExtend && operations[op.request].is_short;
        op.item = operations[op.request].item;
      }
      // Sometimes a request that another process sends as well.
      if (op.kind == kTake && i >= kOperationsEach && operations[i - kOperationsEach].kind == kTake && below(2) == 0) {
        op = operations[i - kOperationsEach];
      }
    }
  }

  // Makes the calls of one process, whose thread this is, by `ask`: see FleetCaller.
  template <typename Ask>
  void Run(size_t process, FleetCaller caller, const Ask& ask) {
    for (size_t i = process * kOperationsEach; i < (process + 1) * kOperationsEach; ++i) {
      FleetOperation& op = operations[i];
      const FleetOperation& of = operations[op.request];
      // Nobody ends the orders that run out, and those that were sold at once do not last longer.
      const bool ends = op.kind == FleetOperation::kCommit || op.kind == FleetOperation::kCancel;
      const bool leaves =
          (ends && of.is_short) || ((ends || op.kind == FleetOperation::kExtend) && of.kind == FleetOperation::kTake);
      op.begin = tick_.fetch_add(1);
      made_[i] = !leaves && caller.CallBy(ask, op);
      op.end = tick_.fetch_add(1);
    }
  }

  // The calls that were made, and the expiries.
  std::vector<FleetOperation> History() const {
    std::vector<FleetOperation> history;
    for (size_t i = 0; i < operations.size(); ++i) {
      const FleetOperation& op = operations[i];
      if (!made_[i]) continue;
      history.push_back(op);
      if (!op.wants_units() || !op.is_short || op.answer != FleetOperation::kDone) continue;
      // Its units come back at some time, perhaps after all other calls.
      history.push_back({.kind = FleetOperation::kExpiry, .request = op.request, .begin = op.begin, .end = UINT64_MAX});
    }
    return history;
  }
  // For a call after all of them.
  uint64_t NextTick() { return tick_.fetch_add(1); }

  FleetState first;
  std::array<int32_t, 2> shards;
  std::array<FleetOperation, kProcesses* kOperationsEach> operations = {};

 private:
  std::array<bool, kProcesses* kOperationsEach> made_ = {};
  std::atomic<uint64_t> tick_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_PLAN_H_
