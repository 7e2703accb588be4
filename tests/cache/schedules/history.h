#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_HISTORY_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_HISTORY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/schedules/scheduler.h"

namespace stockade::testing {

enum class CallKind { kGet, kGetIfPresent, kPut, kInvalidate, kInvalidateAll };

// What a call answered or a load came to.
struct Outcome {
  enum class Kind {
    kNone,  // Put, Invalidate: nothing to tell.
    kValue,
    kAbsent,
    kError,    // The loader's.
    kNothing,  // GetIfPresent().
    kDeadline,
    kCircle,
    kUnexpected,  // Any other status.
  };

  Kind kind = Kind::kNone;
  int64_t id = 0;  // Of a value, an absence or an error: each load and each Put has its own.

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Spans of virtual time are in nanoseconds; Scheduler::kNever is infinite.
struct Call {
  CallKind kind = CallKind::kGet;
  int key = 0;  // None for InvalidateAll().
  Stamp begin;
  Stamp end;
  Outcome outcome;
  int64_t timeout = Scheduler::kNever;  // Get().
  int64_t id = 0;                       // Put(): the value.
  std::optional<int64_t> ttl;           // Put(): its own.
  bool in_loader = false;
  bool in_own_loader = false;    // Of the same key, on the same thread.
  bool circle_possible = false;  // Set by FindCircles().
};

// One run of the loader.
struct Load {
  int key = 0;
  int thread = 0;
  Stamp cause;           // The call, or the task of an executor, that ran it began.
  Stamp begin;           // The loader was entered,
  Stamp end;             // and left,
  Stamp ended;           // and the call or task had ended.
  bool refresh = false;  // In the background.
  Outcome outcome;
  std::optional<int64_t> ttl;  // As the loader set it.
};

struct History {
  std::vector<Call> calls;
  std::vector<Load> loads;
};

// A loader's Get() of another key may be refused where, within its time, a load of that key was itself within a Get():
// without that no wait closes a circle. Marks those calls.
void FindCircles(History& history);

// Writes the history down, on the threads of a schedule.
class Recorder {
 public:
  explicit Recorder(Scheduler* scheduler) : scheduler_(*scheduler) {}

  size_t BeginCall(CallKind kind, const char* name, int key);
  Call& call(size_t index) { return history_.calls[index]; }
  void EndCall(size_t index, Outcome outcome);

  void BeginTask(bool refreshes);
  void EndTask();

  size_t BeginLoad(int key);
  void EndLoad(size_t index, Outcome outcome, std::optional<int64_t> ttl);

  // Loads that the calling thread is within.
  int depth() const;
  // Loads of the key that run.
  int running(int key) const;
  // Calls and tasks under way that may be storing an entry.
  int storing() const { return storing_; }

  History& history() { return history_; }

 private:
  struct Frame {
    bool is_load;
    bool stores;
    bool refresh;
    size_t index;  // Of the call or load.
    int key;
    Stamp begin;
  };
  using Stack = std::vector<Frame>;

  Stack& stack() { return stacks_[static_cast<size_t>(scheduler_.thread())]; }
  void Pop(Stamp now);

  Scheduler& scheduler_;
  History history_;
  std::array<Stack, Scheduler::kMaxThreads> stacks_;
  std::vector<size_t> unfinished_;  // Loads that ended, in a call or task that did not.
  int storing_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_HISTORY_H_
