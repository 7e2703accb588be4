#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_HISTORY_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "inventory/history.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

// What happens to a fleet's stock of one item or two: a call of a process, with its answer.
struct FleetOperation {
  // kExpiry and kReturn are not calls. kReturn: the units of one item of an order that was cancelled or has expired are
  // for sale again; if processes refuse by leases, that is later than its end.
  enum Kind {
    kTake,
    kReserve,
    kBasket,
    kCommit,
    kCancel,
    kRestock,
    kRead,
    kReshard,
    kExpiry,
    kReturn,
    kExtend,
    kTakeBack
  };
  // kAllHeld and kSoldOut are of the line `refused`. kDone: OK. kOver: the order has expired, or fewer units are left.
  enum Answer { kDone, kAllHeld, kSoldOut, kOver };
  Kind kind = kTake;
  size_t item = 0;    // kBasket: of the first line; the other item is the second line's.
  int64_t units = 1;  // Wanted or restocked; kRead: read; kReshard: shards.
  int64_t second_units = 0;
  // The request id. kCommit, kCancel, kExtend, kExpiry, kReturn, kTakeBack: of the order.
  size_t request = 0;
  size_t self = 0;     // kTakeBack: of its own request id.
  uint64_t order = 0;  // That was granted or ended.
  Answer answer = kDone;
  size_t refused = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  // kReserve and kBasket: runs out within the history.
  bool is_short = false;

  // Its answer can be an order.
  bool wants_units() const { return kind == kTake || kind == kReserve || kind == kBasket; }
};

// What is for sale of two items, and the orders.
struct FleetState {
  static constexpr size_t kRequests = 24;

  std::array<int64_t, 2> units = {};
  std::array<int64_t, 2> unsold = {};  // With those that are held.
  // A lease knows what was held when it began: kAllHeld may be answered although all is sold by now.
  bool has_leases = false;
  // By request id, of the order that it got.
  enum Order : uint8_t { kNone, kHeld, kSold, kEnded };
  std::array<Order, kRequests> orders = {};
  std::array<std::array<int64_t, 2>, kRequests> lines = {};

  friend bool operator==(const FleetState&, const FleetState&) = default;

  bool Grant(const FleetOperation& op) {
    using enum FleetOperation::Answer;
    if (orders[op.request] != kNone) return op.answer == kDone;
    std::array<int64_t, 2> wanted = {};
    wanted[op.item] = op.units;
    wanted[1 - op.item] = op.second_units;
    if (op.answer != kDone) {
      const bool sold_out = unsold[op.refused] < wanted[op.refused];
      const bool is_short = units[op.refused] < wanted[op.refused];
      return op.answer == kSoldOut ? sold_out : is_short && (!sold_out || has_leases);
    }
    for (size_t i = 0; i < 2; ++i) {
      if (units[i] < wanted[i]) return false;
      units[i] -= wanted[i];
      if (op.kind == FleetOperation::kTake) unsold[i] -= wanted[i];
    }
    lines[op.request] = wanted;
    orders[op.request] = op.kind == FleetOperation::kTake ? kSold : kHeld;
    return true;
  }

  bool End(const FleetOperation& op) {
    if (orders[op.request] != kHeld) return false;
    const bool is_sold = op.kind == FleetOperation::kCommit;
    orders[op.request] = is_sold ? kSold : kEnded;
    for (size_t i = 0; i < 2; ++i) (is_sold ? unsold : units)[i] += (is_sold ? -1 : 1) * lines[op.request][i];
    return true;
  }

  bool TakeBack(const FleetOperation& op) {
    int64_t& left = lines[op.request][op.item];
    const bool can = orders[op.request] == kSold && left >= op.units;
    if (can != (op.answer == FleetOperation::kDone)) return false;
    if (!can) return true;
    left -= op.units;
    units[op.item] += op.units;
    unsold[op.item] += op.units;
    return true;
  }

  bool Return(const FleetOperation& op) {
    int64_t& returned = lines[op.request][op.item];
    if (orders[op.request] == kNone || returned == 0) return false;
    orders[op.request] = kEnded;
    units[op.item] += returned;
    returned = 0;
    return true;
  }
};

inline bool Apply(const FleetOperation& op, FleetState& state) {
  switch (op.kind) {
    case FleetOperation::kTake:
    case FleetOperation::kReserve:
    case FleetOperation::kBasket: return state.Grant(op);
    case FleetOperation::kCommit:
    case FleetOperation::kCancel:
    case FleetOperation::kExpiry: return state.End(op);
    case FleetOperation::kRestock:
      state.units[op.item] += op.units;
      state.unsold[op.item] += op.units;
      return true;
    case FleetOperation::kRead: return op.units == state.units[op.item];
    case FleetOperation::kReshard: return true;
    case FleetOperation::kReturn: return state.Return(op);
    case FleetOperation::kTakeBack: return state.TakeBack(op);
    case FleetOperation::kExtend:
      return (state.orders[op.request] == FleetState::kHeld) == (op.answer == FleetOperation::kDone);
  }
  return false;
}

inline std::string Describe(const std::vector<FleetOperation>& history) {
  static constexpr const char* kNames[] = {"take", "reserve", "basket", "commit", "cancel", "restock",
                                           "read", "reshard", "expiry", "return", "extend", "take back"};
  static constexpr const char* kAnswers[] = {"done", "all held", "sold out", "over"};
  std::string text;
  for (const FleetOperation& op : history) {
    text += base_internal::Concat("item ", op.item, ": ", kNames[op.kind], "(", op.units, ", ", op.second_units,
                                  " of the other) id ", op.request, " = ", kAnswers[op.answer], " of item ", op.refused,
                                  " [", op.begin, ", ", op.end, "]\n");
  }
  return text;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_HISTORY_H_
