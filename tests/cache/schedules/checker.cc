#include "cache/schedules/checker.h"

#include <algorithm>
#include <bitset>
#include <unordered_set>
#include <vector>

#include "stockade/base/strings.h"

namespace stockade::testing {
namespace {

constexpr size_t kMaxSteps = 256;

// One step of the model, to happen at a moment from `begin` to `end`.
struct Step {
  enum class Kind { kCall, kLoadBegins, kLoadEnds };
  Kind kind;
  int index;  // In the history.
  int64_t begin;
  int64_t end;
};

struct Window {
  int64_t begin;
  int64_t end;
  int64_t time;
  bool of_the_over;  // Only what nothing can be made of any more.
};

struct Position {
  std::bitset<kMaxSteps> done;
  KeyState state;
  int64_t now = 0;  // No step that is not done may lie before it: the latest begin of what is done.

  friend bool operator==(const Position&, const Position&) = default;
};

struct PositionHash {
  size_t operator()(const Position& position) const {
    size_t hash = std::hash<std::bitset<kMaxSteps>>()(position.done);
    const KeyState& state = position.state;
    for (const int64_t part : {state.stored.id, state.joined.id, state.put.id, int64_t{state.current}, position.now,
                               state.retry_at.high, state.fresh_until.high}) {
      hash = (hash ^ static_cast<size_t>(part)) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

class KeySearch {
 public:
  KeySearch(const Rules& rules, const History& history, int key) : rules_(rules), history_(history) {
    for (size_t i = 0; i < history.calls.size(); ++i) {
      const Call& call = history.calls[i];
      if (rules.evicts && call.kind == CallKind::kPut) AddEviction(call.begin, call.end, false);
      if (call.key != key && call.key != kAllKeys) continue;
      tags_ = tags_ || call.kind == CallKind::kInvalidateTag;
      steps_.push_back({Step::Kind::kCall, static_cast<int>(i), call.begin.step, call.end.step});
    }
    for (size_t i = 0; i < history.loads.size(); ++i) {
      const Load& load = history.loads[i];
      if (rules.evicts) AddEviction(load.end, load.ended, false);
      if (load.key != key) continue;
      steps_.push_back({Step::Kind::kLoadBegins, static_cast<int>(i), load.cause.step, load.begin.step});
      steps_.push_back({Step::Kind::kLoadEnds, static_cast<int>(i), load.end.step, load.ended.step});
    }
    // Whether it has left shows in nothing but its tags. Each store of the shard sweeps some slots.
    for (const Call& call : history.calls) {
      const bool removes = call.kind == CallKind::kPut || (call.kind == CallKind::kGetIfPresent && call.key == key);
      if (tags_ && removes) AddEviction(call.begin, call.end, true);
    }
    for (const Load& load : history.loads) {
      if (tags_) AddEviction(load.end, load.ended, true);
    }
    if (rules.load_hard_timeout != Scheduler::kNever) {
      for (const Load& load : history.loads) timed_out_from_.push_back(TimesOutFrom(load));
    }
    std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.begin < b.begin; });
  }

  bool fits() const { return steps_.size() <= kMaxSteps; }
  bool Explains() { return Explains(Position{}); }
  // The step that no order got beyond.
  const Step& obstacle() const { return steps_[furthest_]; }

 private:
  void AddEviction(Stamp begin, Stamp end, bool of_the_over) {
    evictions_.push_back({begin.step, end.step, end.time, of_the_over});
  }

  bool Explains(Position at) {
    TakeLookups(at);
    const size_t done = at.done.count();
    if (done == steps_.size()) return true;
    if (!visited_.insert(at).second) return false;
    const int64_t limit = Limit(at);
    for (size_t i = 0; i < steps_.size() && steps_[i].begin < limit; ++i) {
      if (at.done[i]) continue;
      Position next = at;
      if (Take(i, next) && Explains(next)) return true;
    }
    if (at.state.current >= 0 && !timed_out_from_.empty()) {
      const auto current = static_cast<size_t>(at.state.current);
      const Load& load = history_.loads[current];
      const int64_t from = timed_out_from_[current];
      Position next = at;
      next.now = std::max(next.now, from);
      const KeyState::Time time{.low = load.cause.time + rules_.load_hard_timeout, .high = load.ended.time};
      if (from < limit && TimeOut(rules_, load, time, next.state) && Explains(next)) return true;
    }
    if (at.state.stored.kind != Outcome::Kind::kNone) {
      for (const Window& window : evictions_) {
        if (window.end < at.now || window.begin >= limit) continue;
        if (window.of_the_over && !MayBeOver(rules_, at.state, window.time)) continue;
        Position next = at;
        Evict(next.state);
        next.now = std::max(next.now, window.begin);
        if (Explains(next)) return true;
      }
    }
    return false;
  }

  // The last known step before the load's hard time-out may have passed.
  int64_t TimesOutFrom(const Load& load) const {
    int64_t from = 0;
    const auto look_at = [&](Stamp stamp) {
      if (stamp.time < load.cause.time + rules_.load_hard_timeout) from = std::max(from, stamp.step);
    };
    for (const Call& call : history_.calls) {
      look_at(call.begin);
      look_at(call.end);
    }
    look_at(load.begin);
    look_at(load.end);
    return from;
  }

  // A lookup that is allowed and leaves no trace may as well happen now: what comes later stays as allowed as it is.
  void TakeLookups(Position& at) {
    for (bool again = true; again;) {
      again = false;
      const int64_t limit = Limit(at);
      for (size_t i = 0; i < steps_.size() && steps_[i].begin < limit; ++i) {
        if (at.done[i] || steps_[i].kind != Step::Kind::kCall) continue;
        const CallKind kind = CallOf(steps_[i]).kind;
        if (kind != CallKind::kGet && kind != CallKind::kGetIfPresent && kind != CallKind::kPeek) continue;
        if (EvictionEndsBefore(steps_[i].begin, at)) continue;
        Position next = at;
        if (!Take(i, next) || !(next.state == at.state)) continue;
        at = next;
        again = true;
      }
    }
  }

  // What may be evicted now could not be, once a step that begins at `begin` has come before it.
  bool EvictionEndsBefore(int64_t begin, const Position& at) const {
    return std::any_of(evictions_.begin(), evictions_.end(),
                       [&](const Window& window) { return window.end >= at.now && window.end < begin; });
  }

  // The first end of what is not done: what begins later cannot come next.
  int64_t Limit(const Position& at) {
    int64_t limit = Scheduler::kNever;
    for (size_t i = 0; i < steps_.size() && steps_[i].begin < limit; ++i) {
      if (at.done[i] || steps_[i].end >= limit) continue;
      limit = steps_[i].end;
      first_end_ = i;
    }
    if (at.done.count() >= most_done_) {
      most_done_ = at.done.count();
      furthest_ = first_end_;
    }
    return limit;
  }

  bool Take(size_t i, Position& at) const {
    const Step& step = steps_[i];
    bool allowed = false;
    switch (step.kind) {
      case Step::Kind::kCall: {
        const int current = at.state.current;
        const Load* const load = current < 0 ? nullptr : &history_.loads[static_cast<size_t>(current)];
        allowed = Answer(rules_, CallOf(step), load, at.state);
        break;
      }
      case Step::Kind::kLoadBegins: allowed = BeginLoad(rules_, LoadOf(step), step.index, at.state); break;
      case Step::Kind::kLoadEnds:
        // Its begin ends before its end begins, so it is done.
        allowed = EndLoad(rules_, LoadOf(step), step.index, at.state);
        break;
    }
    at.done.set(i);
    at.now = std::max(at.now, step.begin);
    return allowed;
  }

  const Call& CallOf(const Step& step) const { return history_.calls[static_cast<size_t>(step.index)]; }
  const Load& LoadOf(const Step& step) const { return history_.loads[static_cast<size_t>(step.index)]; }

  const Rules& rules_;
  const History& history_;
  std::vector<Step> steps_;              // By their begin.
  std::vector<Window> evictions_;        // In which entries are stored, of any key.
  std::vector<int64_t> timed_out_from_;  // Of each load of the history: the step; empty: there is no time-out.
  bool tags_ = false;                    // Are invalidated.
  std::unordered_set<Position, PositionHash> visited_;
  size_t first_end_ = 0;
  size_t most_done_ = 0;
  size_t furthest_ = 0;
};

}  // namespace

std::string CheckHistory(const Rules& rules, const History& history, int keys) {
  for (int key = 0; key < keys; ++key) {
    KeySearch search(rules, history, key);
    if (!search.fits()) return "the history is too long to be judged";
    if (search.Explains()) continue;
    const Step& step = search.obstacle();
    return base_internal::Concat("no order of steps explains what was seen of key ", key, "; none gets beyond the ",
                                 step.kind == Step::Kind::kCall ? "call" : "load", " of events ", step.begin, " to ",
                                 step.end);
  }
  return {};
}

}  // namespace stockade::testing
