#ifndef STOCKADE_BASE_INSTANT_H_
#define STOCKADE_BASE_INSTANT_H_

#include <compare>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "stockade/base/export.h"

namespace stockade {

// A point in time on a Clock: nanoseconds since an origin that is meaningful only within the process. Arithmetic
// saturates, so "now plus an infinite span" is InfiniteFuture() and never wraps. A value type; any thread may copy it.
class Instant {
 public:
  constexpr Instant() = default;

  // The instant `nanoseconds` after the origin.
  static constexpr Instant FromNanoseconds(int64_t nanoseconds) { return Instant(nanoseconds); }
  // Later, and earlier, than all other instants.
  static constexpr Instant InfiniteFuture() { return Instant(std::numeric_limits<int64_t>::max()); }
  static constexpr Instant InfinitePast() { return Instant(std::numeric_limits<int64_t>::min()); }

  // Nanoseconds since the origin; INT64_MAX and INT64_MIN for the infinite instants.
  constexpr int64_t nanoseconds() const { return nanoseconds_; }

  friend constexpr auto operator<=>(Instant, Instant) = default;

  // Adding a finite span to an infinite instant does not change it. An overflow gives the infinite instant of that
  // direction.
  friend Instant operator+(Instant at, absl::Duration span) {
    if (at == InfiniteFuture() || at == InfinitePast()) return at;
    // ToInt64Nanoseconds() saturates and returns the limits for infinite spans, too.
    const int64_t delta = absl::ToInt64Nanoseconds(span);
    int64_t sum = 0;
    const bool infinite = delta == std::numeric_limits<int64_t>::max() || delta == std::numeric_limits<int64_t>::min();
    if (!infinite && !__builtin_add_overflow(at.nanoseconds_, delta, &sum)) return Instant(sum);
    return delta > 0 ? InfiniteFuture() : InfinitePast();
  }
  friend Instant operator-(Instant at, absl::Duration span) { return at + -span; }

  // The span from `from` to `to`; infinite if either is infinite and they differ.
  friend absl::Duration operator-(Instant to, Instant from) {
    if (to == from) return absl::ZeroDuration();
    if (to == InfiniteFuture() || from == InfinitePast()) return absl::InfiniteDuration();
    if (to == InfinitePast() || from == InfiniteFuture()) return -absl::InfiniteDuration();
    return absl::Nanoseconds(to.nanoseconds_) - absl::Nanoseconds(from.nanoseconds_);
  }

 private:
  explicit constexpr Instant(int64_t nanoseconds) : nanoseconds_(nanoseconds) {}

  int64_t nanoseconds_ = 0;
};

}  // namespace stockade

#endif  // STOCKADE_BASE_INSTANT_H_
