#ifndef STOCKADE_BASE_DURATION_H_
#define STOCKADE_BASE_DURATION_H_

#include <chrono>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade {

namespace base_internal {

__extension__ using Int128 = __int128;

// `count` times numerator / denominator seconds, as Duration's constructor has it. |count| < 2^64.
STOCKADE_EXPORT absl::Duration DurationOf(Int128 count, int64_t numerator, int64_t denominator);
// `precision`: the largest relative error of `count`.
STOCKADE_EXPORT absl::Duration DurationOf(long double count, int64_t numerator, int64_t denominator,
                                          long double precision);

}  // namespace base_internal

// A time span in options and arguments: an absl::Duration that std::chrono durations also convert to. A plain number
// does not convert, because it has no unit. Arithmetic saturates.
class Duration : public absl::Duration {
 public:
  // Zero.
  constexpr Duration() = default;
  // Equal to `span`.
  constexpr Duration(absl::Duration span) : absl::Duration(span) {}  // NOLINT(google-explicit-constructor)

  // Equal to `span`, rounded towards zero to a multiple of 0.25 ns. A floating-point count is rounded to the nearest
  // multiple if it cannot tell the two apart: seconds(0.3) is 300 ms.
  template <typename Rep, typename Period>
  Duration(std::chrono::duration<Rep, Period> span)  // NOLINT(google-explicit-constructor)
      : absl::Duration(From(span.count(), Period::num, Period::den)) {}

  // Rejected at compile time.
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Duration(Number) {  // NOLINT(google-explicit-constructor)
    static_assert(!std::is_arithmetic_v<Number>,
                  "a plain number has no unit of time: write absl::Seconds(300) or std::chrono::seconds(300)");
  }

 private:
  template <typename Rep>
  static absl::Duration From(Rep count, int64_t numerator, int64_t denominator) {
    if constexpr (std::chrono::treat_as_floating_point_v<Rep>) {
      return base_internal::DurationOf(static_cast<long double>(count), numerator, denominator,
                                       std::numeric_limits<Rep>::epsilon() / 2);
    } else {
      return base_internal::DurationOf(static_cast<base_internal::Int128>(count), numerator, denominator);
    }
  }
};

}  // namespace stockade

#endif  // STOCKADE_BASE_DURATION_H_
