#ifndef STOCKADE_BASE_DURATION_H_
#define STOCKADE_BASE_DURATION_H_

#include <chrono>
#include <cstdint>
#include <type_traits>

#include "absl/time/time.h"
#include "stockade/base/export.h"

namespace stockade {

// A time span in options and arguments: an absl::Duration that std::chrono durations also convert to. A plain number
// does not convert, because it has no unit. Arithmetic saturates.
class Duration : public absl::Duration {
 public:
  // Zero.
  constexpr Duration() = default;
  // Equal to `span`.
  constexpr Duration(absl::Duration span) : absl::Duration(span) {}  // NOLINT(google-explicit-constructor)

  // Equal to `span`, rounded towards zero to a multiple of 0.25 ns.
  template <typename Rep, typename Period>
  Duration(std::chrono::duration<Rep, Period> span)  // NOLINT(google-explicit-constructor)
      : absl::Duration(absl::Seconds(1) * span.count() * int64_t{Period::num} / int64_t{Period::den}) {}

  // Rejected at compile time.
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Duration(Number) {  // NOLINT(google-explicit-constructor)
    static_assert(!std::is_arithmetic_v<Number>,
                  "a plain number has no unit of time: write absl::Seconds(300) or std::chrono::seconds(300)");
  }
};

}  // namespace stockade

#endif  // STOCKADE_BASE_DURATION_H_
