#ifndef STOCKADE_TESTS_INVENTORY_HISTORY_H_
#define STOCKADE_TESTS_INVENTORY_HISTORY_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stockade::testing {

// Returns whether the operations that are not in `done` (one bit each) can be put in an order that respects real time
// and in which every answer is right. An operation has `begin` and `end`, ticks of one shared counter: a.end < b.begin
// only if a returned before b was called. Apply(operation, state) returns whether the operation may give its answer if
// it takes place now, and then changes the state as the operation does.
template <typename Operation, typename State>
bool HasExplanation(const std::vector<Operation>& history, const State& state, uint32_t done = 0) {
  if (done == (uint32_t{1} << history.size()) - 1) return true;
  uint64_t first_end = UINT64_MAX;
  for (size_t i = 0; i < history.size(); ++i) {
    if ((done >> i & 1) == 0) first_end = std::min(first_end, history[i].end);
  }
  for (size_t i = 0; i < history.size(); ++i) {
    if ((done >> i & 1) != 0 || history[i].begin > first_end) continue;
    State after = state;
    if (Apply(history[i], after) && HasExplanation(history, after, done | uint32_t{1} << i)) return true;
  }
  return false;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_HISTORY_H_
