#ifndef STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_HISTORY_H_
#define STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_HISTORY_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "inventory/history.h"

namespace stockade::testing {

// The units of two items.
using Stocks = std::array<int64_t, 2>;

// One call on item 0 or 1, with its answer.
struct Operation {
  enum Kind { kTake, kTakeAll, kTakeTogether, kDeposit, kRead, kReshard } kind = kTake;
  size_t item = 0;           // kTakeTogether: of the first line; the other item is the second line's.
  int64_t units = 1;         // Wanted, deposited, or the number of shards.
  int64_t second_units = 0;  // Wanted by the second line.
  // kTake: 1 or 0. kTakeAll, kRead: units. kTakeTogether: -1, or the line that was refused.
  int64_t answer = 0;
  // Ticks of one shared counter: a.end < b.begin only where a returned before b was called.
  uint64_t begin = 0;
  uint64_t end = 0;
};

// True where `op` may give the answer that it gave if it takes place now; then changes `stocks` as it does.
inline bool Apply(const Operation& op, Stocks& stocks) {
  int64_t& mine = stocks[op.item];
  int64_t& other = stocks[1 - op.item];
  switch (op.kind) {
    case Operation::kTake:
      if ((op.answer == 1) != (mine >= op.units)) return false;
      if (op.answer == 1) mine -= op.units;
      return true;
    case Operation::kTakeAll:
      if (op.answer != mine) return false;
      mine = 0;
      return true;
    case Operation::kTakeTogether:
      if (op.answer == 0) return mine < op.units;
      if (op.answer == 1) return other < op.second_units;
      if (mine < op.units || other < op.second_units) return false;
      mine -= op.units;
      other -= op.second_units;
      return true;
    case Operation::kDeposit: mine += op.units; return true;
    case Operation::kRead: return op.answer == mine;
    case Operation::kReshard: return true;
  }
  return false;
}

inline bool Explains(const std::vector<Operation>& history, const Stocks& stocks) {
  return HasExplanation(history, stocks);
}

inline std::string Describe(const std::vector<Operation>& history) {
  static constexpr const char* kNames[] = {"take", "take all", "take together", "deposit", "read", "reshard"};
  std::string text;
  for (const Operation& op : history) {
    text += "item " + std::to_string(op.item) + ": " + kNames[op.kind] + "(" + std::to_string(op.units);
    if (op.kind == Operation::kTakeTogether) text += ", " + std::to_string(op.second_units) + " of the other";
    text +=
        ") = " + std::to_string(op.answer) + " [" + std::to_string(op.begin) + ", " + std::to_string(op.end) + "]\n";
  }
  return text;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_SHARDED_STOCK_HISTORY_H_
