#ifndef STOCKADE_BASE_DURATION_H_
#define STOCKADE_BASE_DURATION_H_

#include <chrono>
#include <cstdint>
#include <type_traits>

#include "absl/time/time.h"
#include "stockade/base/export.h"

namespace stockade {

// A span of time in options and arguments: an absl::Duration that a std::chrono duration converts to as well, and a
// plain number, which has no unit, does not. Saturates.
class Duration : public absl::Duration {
 public:
  // Zero.
  constexpr Duration() = default;
  // As `span`.
  constexpr Duration(absl::Duration span) : absl::Duration(span) {}  // NOLINT(google-explicit-constructor)

  // As long as `span`, rounded towards zero to a quarter of a nanosecond.
  template <typename Rep, typename Period>
  Duration(std::chrono::duration<Rep, Period> span)  // NOLINT(google-explicit-constructor)
      : absl::Duration(absl::Seconds(1) * span.count() * int64_t{Period::num} / int64_t{Period::den}) {}

  // Does not compile.
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Duration(Number) {  // NOLINT(google-explicit-constructor)
    static_assert(!std::is_arithmetic_v<Number>,
                  "a plain number has no unit of time: write absl::Seconds(300) or std::chrono::seconds(300)");
  }
};

}  // namespace stockade

#endif  // STOCKADE_BASE_DURATION_H_
