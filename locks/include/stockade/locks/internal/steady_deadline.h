#ifndef STOCKADE_LOCKS_INTERNAL_STEADY_DEADLINE_H_
#define STOCKADE_LOCKS_INTERNAL_STEADY_DEADLINE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "stockade/base/export.h"

namespace stockade::locks_internal {

// The end of a timed call, on the steady clock. kNever means no deadline, kNoWait means not to wait.
using SteadyDeadline = std::chrono::steady_clock::time_point;
inline constexpr SteadyDeadline kNever = SteadyDeadline::max();
inline constexpr SteadyDeadline kNoWait = SteadyDeadline::min();

// Converts to nanoseconds. Rounds up, so that no wait ends early, and saturates, so that hours::max() does not wrap.
// NaN becomes zero.
template <typename Rep, typename Period>
constexpr std::chrono::nanoseconds SaturatingNanoseconds(const std::chrono::duration<Rep, Period>& span) {
  using std::chrono::nanoseconds;
  const long double count = std::chrono::duration<long double, std::nano>(span).count();
  if (count != count) return nanoseconds::zero();
  if (count >= static_cast<long double>(std::numeric_limits<int64_t>::max())) return nanoseconds::max();
  if (count <= static_cast<long double>(std::numeric_limits<int64_t>::min())) return nanoseconds::min();
  return std::chrono::ceil<nanoseconds>(span);
}

// The deadline `span` from now; kNever if it is beyond the clock's range.
inline SteadyDeadline DeadlineAfter(std::chrono::nanoseconds span) {
  const SteadyDeadline now = std::chrono::steady_clock::now();
  if (span <= std::chrono::nanoseconds::zero()) return now;
  return span >= kNever - now ? kNever : now + span;
}

// Calls try_until(SteadyDeadline) until it returns true or `deadline` has passed on its own clock. If that clock is
// stepped while a thread waits, this is noticed when the wait on the steady clock ends.
template <typename Clock, typename Duration, typename TryUntil>
bool TryUntilOnClock(const std::chrono::time_point<Clock, Duration>& deadline, TryUntil&& try_until) {
  for (;;) {
    const auto now = Clock::now();
    // Does not subtract if the deadline has passed, because time_point::min() would overflow.
    if (now >= deadline) return try_until(DeadlineAfter(std::chrono::nanoseconds::zero()));
    if (try_until(DeadlineAfter(SaturatingNanoseconds(deadline - now)))) return true;
  }
}

template <typename Duration, typename TryUntil>
bool TryUntilOnClock(const std::chrono::time_point<std::chrono::steady_clock, Duration>& deadline,
                     TryUntil&& try_until) {
  // The clock never reads less than zero, and the kernel accepts no negative time.
  const std::chrono::nanoseconds at = SaturatingNanoseconds(deadline.time_since_epoch());
  return try_until(SteadyDeadline(std::max(at, std::chrono::nanoseconds::zero())));
}

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_INTERNAL_STEADY_DEADLINE_H_
