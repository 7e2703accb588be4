#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_HISTORY_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_HISTORY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/schedules/scheduler.h"

namespace stockade::testing {

// GetAll() is a kGet of each of its keys, all of one time.
enum class CallKind { kGet, kGetIfPresent, kPeek, kPut, kRefresh, kInvalidate, kInvalidateTag, kInvalidateAll };

// What a call answered or a load came to.
struct Outcome {
  enum class Kind {
    kNone,  // Put, Invalidate: nothing to tell.
    kValue,
    kAbsent,
    kError,    // The loader's.
    kNothing,  // GetIfPresent(), Peek().
    kDeadline,
    kCircle,
    kUnexpected,  // Any other status.
  };

  Kind kind = Kind::kNone;
  int64_t id = 0;  // Of a value, an absence or an error: each load and each Put has its own.

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

inline constexpr int kAllKeys = -1;

// Spans of virtual time are in nanoseconds; Scheduler::kNever is infinite.
struct Call {
  CallKind kind = CallKind::kGet;
  int key = 0;  // kAllKeys for InvalidateTag() and InvalidateAll().
  int thread = 0;
  Stamp begin;
  Stamp end;
  Outcome outcome;
  int64_t timeout = Scheduler::kNever;  // Get().
  int64_t id = 0;                       // Put(): the value.
  std::optional<int64_t> ttl;           // Put(): its own.
  unsigned tags = 0;                    // Put(), InvalidateTag(): a bit each.
  bool in_loader = false;
  bool in_own_loader = false;    // Of the same key, on the same thread.
  bool circle_possible = false;  // Set by FindCircles().
};

// One run of the loader, for one key; a batch is one for each of its keys, all of one time.
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
  unsigned tags = 0;
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

  // Each returns the place of the first in the history; the others follow it. `keys`: in their order.
  size_t BeginCall(CallKind kind, const char* name, const std::vector<int>& keys);
  Call& call(size_t index) { return history_.calls[index]; }
  void EndCall(size_t first, const std::vector<Outcome>& outcomes);

  void BeginTask(bool refreshes);
  void EndTask();

  struct Result {
    Outcome outcome;
    std::optional<int64_t> ttl = std::nullopt;
    unsigned tags = 0;
  };
  size_t BeginLoad(const std::vector<int>& keys);
  void EndLoad(size_t first, const std::vector<Result>& results);

  // Loads that the calling thread is within.
  int depth() const;
  // Loads of the key that run.
  int running(int key) const;
  // Calls and tasks under way that may be storing an entry.
  int storing() const { return storing_; }
  // Of the loader, each batch as one.
  int64_t runs() const { return runs_; }

  History& history() { return history_; }

 private:
  struct Frame {
    bool is_load;
    bool refresh;
    int stores;             // Entries that it may be storing at one time.
    std::vector<int> keys;  // Of a load.
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
  int64_t runs_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_HISTORY_H_
