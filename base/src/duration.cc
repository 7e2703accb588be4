#include "stockade/base/duration.h"

#include <cmath>
#include <limits>

namespace stockade::base_internal {
namespace {

constexpr int64_t kTicks = 4'000'000'000;  // The quarters of a nanosecond in a second.

absl::Duration Infinite(bool negative) { return negative ? -absl::InfiniteDuration() : absl::InfiniteDuration(); }

// Both have the same sign; |ticks| < kTicks.
absl::Duration Sum(int64_t seconds, int64_t ticks) {
  return absl::Seconds(seconds) + absl::Nanoseconds(ticks / 4) + absl::Nanoseconds(1) / 4 * (ticks % 4);
}

}  // namespace

absl::Duration DurationOf(Int128 count, int64_t numerator, int64_t denominator) {
  const Int128 product = count * numerator;  // |count| < 2^64 and numerator < 2^63.
  const Int128 seconds = product / denominator;
  if (seconds > std::numeric_limits<int64_t>::max() || seconds < std::numeric_limits<int64_t>::min()) {
    return Infinite(count < 0);
  }
  return Sum(static_cast<int64_t>(seconds), static_cast<int64_t>(product % denominator * kTicks / denominator));
}

absl::Duration DurationOf(long double count, int64_t numerator, int64_t denominator, long double precision) {
  const long double span = count * static_cast<long double>(numerator) / static_cast<long double>(denominator);
  if (!(span >= -0x1p63L && span < 0x1p63L)) return Infinite(std::signbit(span));
  const long double seconds = std::trunc(span);
  const long double ticks = (span - seconds) * kTicks;
  const long double nearest = std::round(ticks);
  const bool is_nearest = std::fabs(ticks - nearest) <= std::fabs(span) * kTicks * precision;
  const auto whole = static_cast<int64_t>(is_nearest ? nearest : std::trunc(ticks));
  return absl::Seconds(static_cast<int64_t>(seconds)) + Sum(whole / kTicks, whole % kTicks);
}

}  // namespace stockade::base_internal
