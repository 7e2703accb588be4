#ifndef STOCKADE_TESTS_INVENTORY_HISTORY_H_
#define STOCKADE_TESTS_INVENTORY_HISTORY_H_

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace stockade::testing {

// Searches an order of the operations of a history that respects real time and in which every answer is right. An
// operation has `begin` and `end`, ticks of one shared counter: a.end < b.begin only if a returned before b was called.
// Apply(operation, state) returns whether the operation may give its answer if it takes place now, and then changes the
// state as the operation does. A history has at most 63 operations.
template <typename Operation, typename State>
class HistorySearch {
 public:
  explicit HistorySearch(const std::vector<Operation>& history) : history_(history) {}

  // Whether there is such an order of the operations that are not in `done` (one bit each), beginning with `state`.
  bool Finds(const State& state, uint64_t done = 0) {
    if (done == (uint64_t{1} << history_.size()) - 1) return true;
    std::vector<State>& dead_ends = dead_ends_[done];
    if (std::ranges::find(dead_ends, state) != dead_ends.end()) return false;
    uint64_t first_end = UINT64_MAX;
    for (size_t i = 0; i < history_.size(); ++i) {
      if ((done >> i & 1) == 0) first_end = std::min(first_end, history_[i].end);
    }
    for (size_t i = 0; i < history_.size(); ++i) {
      if ((done >> i & 1) != 0 || history_[i].begin > first_end) continue;
      State after = state;
      if (Apply(history_[i], after) && Finds(after, done | uint64_t{1} << i)) return true;
    }
    dead_ends.push_back(state);
    return false;
  }

 private:
  const std::vector<Operation>& history_;
  // By operations that are done: states from which the others cannot be explained. Most operations commute, so there
  // are far fewer of them than orders. Its references stay valid.
  std::unordered_map<uint64_t, std::vector<State>> dead_ends_;
};

template <typename Operation, typename State>
bool HasExplanation(const std::vector<Operation>& history, const State& state) {
  return HistorySearch<Operation, State>(history).Finds(state);
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_HISTORY_H_
