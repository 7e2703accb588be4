#include "cache/schedules/history.h"

#include <algorithm>

namespace stockade::testing {

size_t Recorder::BeginCall(CallKind kind, const char* name, int key) {
  Call call{.kind = kind, .key = key, .begin = scheduler_.Note(name, key), .end = {}, .outcome = {}, .ttl = {}};
  for (const Frame& frame : stack()) {
    call.in_loader = call.in_loader || frame.is_load;
    call.in_own_loader = call.in_own_loader || (frame.is_load && frame.key == key);
  }
  const bool stores = kind == CallKind::kGet || kind == CallKind::kPut;
  storing_ += stores;
  history_.calls.push_back(call);
  const size_t index = history_.calls.size() - 1;
  stack().push_back({false, stores, false, index, key, call.begin});
  return index;
}

void Recorder::EndCall(size_t index, Outcome outcome) {
  static constexpr const char* kAnswers[] = {"  done",      "  = value",    "  = absent", "  = error",
                                             "  = nothing", "  = deadline", "  = circle", "  = unexpected"};
  Call& call = history_.calls[index];
  call.outcome = outcome;
  call.end = scheduler_.Note(kAnswers[static_cast<size_t>(outcome.kind)], outcome.id, call.begin.step);
  Pop(call.end);
}

void Recorder::BeginTask(bool refreshes) {
  const Stamp begin = scheduler_.Note(refreshes ? "task of a refresh" : "task of a load");
  ++storing_;
  stack().push_back({false, true, refreshes, 0, 0, begin});
}

void Recorder::EndTask() { Pop(scheduler_.Note("task ends")); }

// The loads of the innermost call or task are over with it.
void Recorder::Pop(Stamp now) {
  const Frame frame = stack().back();
  stack().pop_back();
  storing_ -= frame.stores;
  std::erase_if(unfinished_, [&](size_t load) {
    const bool mine = history_.loads[load].cause.step == frame.begin.step;
    if (mine) history_.loads[load].ended = now;
    return mine;
  });
}

size_t Recorder::BeginLoad(int key) {
  const Frame& within = stack().back();
  const Stamp begin = scheduler_.Note("loader of key", key);
  history_.loads.push_back({.key = key,
                            .thread = scheduler_.thread(),
                            .cause = within.begin,
                            .begin = begin,
                            .end = {},
                            .ended = {},
                            .refresh = within.refresh,
                            .outcome = {},
                            .ttl = {}});
  const size_t index = history_.loads.size() - 1;
  stack().push_back({true, false, false, index, key, begin});
  return index;
}

void Recorder::EndLoad(size_t index, Outcome outcome, std::optional<int64_t> ttl) {
  static constexpr const char* kResults[] = {"", "loader returns value", "loader returns absence", "loader fails"};
  stack().pop_back();
  Load& load = history_.loads[index];
  load.outcome = outcome;
  load.ttl = ttl;
  load.end = scheduler_.Note(kResults[static_cast<size_t>(outcome.kind)], outcome.id, load.key);
  unfinished_.push_back(index);
}

int Recorder::depth() const {
  const Stack& mine = stacks_[static_cast<size_t>(scheduler_.thread())];
  return static_cast<int>(std::count_if(mine.begin(), mine.end(), [](const Frame& frame) { return frame.is_load; }));
}

int Recorder::running(int key) const {
  int count = 0;
  for (const Load& load : history_.loads) count += load.key == key && load.end.step == 0;
  return count;
}

void FindCircles(History& history) {
  const auto overlap = [](const auto& a, const auto& b) {
    return a.begin.step < b.end.step && b.begin.step < a.end.step;
  };
  const auto within_get = [&](const Load& load, const Call& refused) {
    return std::any_of(history.calls.begin(), history.calls.end(), [&](const Call& nested) {
      return nested.kind == CallKind::kGet && nested.in_loader && &nested != &refused && overlap(nested, refused) &&
             nested.begin.step > load.begin.step && nested.end.step < load.end.step;
    });
  };
  for (Call& call : history.calls) {
    if (call.kind != CallKind::kGet || !call.in_loader) continue;
    call.circle_possible = std::any_of(history.loads.begin(), history.loads.end(), [&](const Load& load) {
      return load.key == call.key && overlap(load, call) && within_get(load, call);
    });
  }
}

}  // namespace stockade::testing
