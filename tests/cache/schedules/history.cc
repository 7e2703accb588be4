#include "cache/schedules/history.h"

#include <algorithm>

namespace stockade::testing {
namespace {

bool Contains(const std::vector<int>& keys, int key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

}  // namespace

size_t Recorder::BeginCall(CallKind kind, const char* name, const std::vector<int>& keys) {
  const Stamp begin = scheduler_.Note(name, keys.front(), static_cast<int64_t>(keys.size()));
  for (const int key : keys) {
    Call call;
    call.kind = kind;
    call.key = key;
    call.thread = scheduler_.thread();
    call.begin = begin;
    for (const Frame& frame : stack()) {
      call.in_loader = call.in_loader || frame.is_load;
      call.in_own_loader = call.in_own_loader || Contains(frame.keys, key);
    }
    history_.calls.push_back(call);
  }
  const int stores = kind == CallKind::kGet || kind == CallKind::kPut;
  storing_ += stores;
  stack().push_back({false, false, stores, {}, begin});
  return history_.calls.size() - keys.size();
}

void Recorder::EndCall(size_t first, const std::vector<Outcome>& outcomes) {
  static constexpr const char* kAnswers[] = {"  done",      "  = value",    "  = absent", "  = error",
                                             "  = nothing", "  = deadline", "  = circle", "  = unexpected"};
  Stamp end;
  for (const Outcome outcome : outcomes) {
    end = scheduler_.Note(kAnswers[static_cast<size_t>(outcome.kind)], outcome.id, history_.calls[first].begin.step);
  }
  for (size_t i = 0; i < outcomes.size(); ++i) {
    history_.calls[first + i].outcome = outcomes[i];
    history_.calls[first + i].end = end;
  }
  Pop(end);
}

void Recorder::BeginTask(bool refreshes) {
  const Stamp begin = scheduler_.Note(refreshes ? "task of a refresh" : "task of a load");
  ++storing_;
  stack().push_back({false, refreshes, 1, {}, begin});
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

size_t Recorder::BeginLoad(const std::vector<int>& keys) {
  const Frame within = stack().back();
  const Stamp begin = scheduler_.Note("loader of keys", keys.front(), keys.back());
  for (const int key : keys) {
    Load load;
    load.key = key;
    load.thread = scheduler_.thread();
    load.cause = within.begin;
    load.begin = begin;
    load.refresh = within.refresh;
    history_.loads.push_back(load);
  }
  stack().push_back({true, false, 0, keys, begin});
  ++runs_;
  return history_.loads.size() - keys.size();
}

void Recorder::EndLoad(size_t first, const std::vector<Result>& results) {
  static constexpr const char* kResults[] = {"", "loader returns value", "loader returns absence", "loader fails"};
  stack().pop_back();
  Stamp end;
  for (const Result& result : results) {
    end = scheduler_.Note(kResults[static_cast<size_t>(result.outcome.kind)], result.outcome.id, result.tags);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    Load& load = history_.loads[first + i];
    load.outcome = results[i].outcome;
    load.ttl = results[i].ttl;
    load.tags = results[i].tags;
    load.end = end;
    unfinished_.push_back(first + i);
  }
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
             nested.thread == load.thread && nested.begin.step > load.begin.step && nested.end.step < load.end.step;
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
