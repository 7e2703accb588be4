#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_MODEL_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_MODEL_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "cache/schedules/history.h"

namespace stockade::testing {

// What a cache promises of one key: a sequential machine. A history is right if each of its calls, and each begin and
// end of a load, can be given one moment within its time, so that in the order of these moments each step is allowed.
//
// State: stored, a value or an absence with its times; current, the load that runs and counts; what those who joined
// it were answered. Steps, and when they are allowed:
//   load begins   none is current, and nothing stored is to be served: it is not fresh, nor stale and revalidated, nor
//                 stale and put off by a failed load. In the background: what is stored is due, or Refresh() was
//                 called. Moment: after the call or task that runs it began, before the loader is entered.
//   load ends     always. If current: a value or absence is stored (or merely takes the old away, where its TTL is not
//                 above zero or one of its tags was invalidated meanwhile) and an error is not, but the old value
//                 stands in for it up to its stale time, and is put off for the back-off; those who joined were
//                 answered that. If not current: nothing changes. Moment: after the loader returned, before its call or
//                 task ended.
//   time-out      the current load's hard time-out has passed; as an error, with Deadline for the answer. A load that
//                 ends later times out, if it has not, and nothing of it is stored.
//   Put           always; stored is its value. Those who joined the current load are answered it; no load is current.
//   Invalidate    always; nothing is stored, no load is current; those who joined get what that load returns.
//   InvalidateTag as Invalidate, if what is stored has the tag; if only the current load's result will have it, nobody
//                 joins that load any more.
//   Refresh       always; with no load current, one may begin in the background.
//   eviction      nothing is stored. Only within a call or task that may store, and only if the bound can be exceeded;
//                 or of what nothing can be made of any more.
//   Get = value   it is stored and to be served; or the call joins the current load (not within a loader of the key
//                 itself), nothing stored being to be served; or it was just Put.
//   Get = absent  as a value, but fresh.
//   Get = error   the call joins the current load.
//   Get = deadline, circle   nothing stored is to be served. Deadline: its time-out has passed. Circle: in a loader of
//   its
//                 own key, or where a circle is possible (FindCircles()). Deadline also of a load that timed out; of
//                 one that never began nothing is known, so with a hard time-out it and a stale value are allowed then.
//   GetIfPresent  a value: stored and fresh; nothing: no fresh value.
//
// A time is judged by the clock as read at some moment of the call or task before it takes effect, not at that effect:
// so the times of what is stored have a lower and an upper limit, and either counts for what it can allow.
struct Rules {
  int64_t ttl = Scheduler::kNever;
  double ttl_jitter = 0;
  double refresh_ahead = 0;
  int64_t negative_ttl = 0;
  int64_t stale_while_revalidate = 0;
  int64_t stale_if_error = 0;
  int64_t retry_backoff = 0;
  int64_t load_hard_timeout = Scheduler::kNever;
  bool evicts = false;
};

struct KeyState {
  static constexpr int64_t kPast = std::numeric_limits<int64_t>::min();

  // A time that is not known more exactly.
  struct Time {
    int64_t low = kPast;
    int64_t high = kPast;
    friend bool operator==(const Time&, const Time&) = default;
  };

  Outcome stored;                // kNone, kValue or kAbsent.
  unsigned tags = 0;             // Of what is stored.
  Time fresh_until;              // Of what is stored.
  int64_t refresh_from = kPast;  // Lower limit.
  Time retry_at;                 // No load before it, after a failed one.
  bool refresh = false;          // Refresh() was called, and no load has begun since.
  int current = -1;              // Load, as its place in the history.
  bool voided = false;           // A tag of the current load's result was invalidated.
  Outcome joined;                // Of the current load: what those who joined it were answered; kNone: nobody has.
  Outcome put;                   // By the last step other than lookups, if that was a Put.
  int64_t put_ended = 0;         // Step of that call's end.

  friend bool operator==(const KeyState&, const KeyState&) = default;
};

// The steps. False: not allowed in this state, which is then as it was.
bool BeginLoad(const Rules& rules, const Load& load, int index, KeyState& state);
bool EndLoad(const Rules& rules, const Load& load, int index, KeyState& state);
bool TimeOut(const Rules& rules, const Load& load, KeyState::Time now, KeyState& state);
void Evict(KeyState& state);
// Whether what is stored may be over at `now`, for all uses.
bool MayBeOver(const Rules& rules, const KeyState& state, int64_t now);
// `current`: the current load; null where there is none.
bool Answer(const Rules& rules, const Call& call, const Load* current, KeyState& state);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_MODEL_H_
