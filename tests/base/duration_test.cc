#include "stockade/base/duration.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>

namespace stockade {
namespace {

template <typename Rep, typename Period = std::ratio<1>>
using Span = std::chrono::duration<Rep, Period>;

const absl::Duration kQuarter = absl::Nanoseconds(1) / 4;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr uint64_t kMostUnsigned = std::numeric_limits<uint64_t>::max();

TEST(DurationTest, FromUnsignedCount_AboveTheLargestSignedOne_IsNotNegative) {
  EXPECT_EQ(Duration(Span<uint64_t>(kMostUnsigned)), absl::InfiniteDuration());
  EXPECT_EQ(Duration(Span<uint64_t>(uint64_t{1} << 63)), absl::InfiniteDuration());
  EXPECT_EQ(Duration(Span<uint64_t>(kMost)), absl::Seconds(kMost));
  EXPECT_EQ(Duration(Span<uint64_t, std::nano>(kMostUnsigned)),
            absl::Seconds(18'446'744'073) + absl::Nanoseconds(709'551'615));
  EXPECT_EQ(Duration(Span<uint32_t>(4'000'000'000u)), absl::Seconds(4'000'000'000));
}

TEST(DurationTest, FromIntegers_WhoseSpanFits_IsExact) {
  EXPECT_EQ(Duration(Span<int64_t, std::ratio<7, 3>>(3'000'000'000'000'000'000)),
            absl::Seconds(7'000'000'000'000'000'000));
  EXPECT_EQ(Duration(Span<int64_t, std::ratio<1'000'000'007, 1'000'000'006>>(9'000'000'000'000)),
            absl::Seconds(9'000'000'008'999) + absl::Nanoseconds(999'946'000));
  EXPECT_EQ(Duration(Span<int64_t>(kLeast)), absl::Seconds(kLeast));
  EXPECT_EQ(Duration(Span<int64_t, std::pico>(kLeast)),
            -(absl::Seconds(9'223'372) + absl::Nanoseconds(36'854'775) + 3 * kQuarter));
  EXPECT_EQ(Duration(std::chrono::nanoseconds(-1)), -absl::Nanoseconds(1));
  EXPECT_EQ(Duration(Span<int8_t, std::milli>(-128)), -absl::Milliseconds(128));
}

TEST(DurationTest, FromIntegers_BetweenTwoQuarters_IsRoundedTowardsZero) {
  EXPECT_EQ(Duration(Span<int64_t, std::pico>(999)), 3 * kQuarter);
  EXPECT_EQ(Duration(Span<int64_t, std::pico>(-999)), -3 * kQuarter);
  EXPECT_EQ(Duration(Span<int64_t, std::pico>(249)), absl::ZeroDuration());
  EXPECT_EQ(Duration(Span<int64_t, std::ratio<1, 3>>(1)), absl::Nanoseconds(333'333'333) + kQuarter);
}

TEST(DurationTest, FromIntegers_WhoseSpanDoesNotFit_IsInfinite) {
  EXPECT_EQ(Duration(std::chrono::minutes::max()), absl::InfiniteDuration());
  EXPECT_EQ(Duration(std::chrono::minutes::min()), -absl::InfiniteDuration());
  EXPECT_EQ(Duration(Span<uint64_t, std::ratio<kMost>>(kMostUnsigned)), absl::InfiniteDuration());
  EXPECT_EQ(Duration(Span<int64_t, std::ratio<kMost>>(kLeast)), -absl::InfiniteDuration());
}

TEST(DurationTest, FromFloatingPoint_WhoseSpanFits_IsThatSpan) {
  EXPECT_EQ(Duration(Span<double, std::pico>(1e22)), absl::Seconds(10'000'000'000));
  EXPECT_EQ(Duration(Span<double, std::nano>(3e20)), absl::Seconds(300'000'000'000));
  EXPECT_EQ(Duration(Span<double>(0.3)), absl::Milliseconds(300));
  EXPECT_EQ(Duration(Span<double>(-0.3)), -absl::Milliseconds(300));
  EXPECT_EQ(Duration(Span<double, std::milli>(1.1)), absl::Microseconds(1100));
  EXPECT_EQ(Duration(Span<double, std::nano>(0.9)), 3 * kQuarter);
  EXPECT_EQ(Duration(Span<double, std::nano>(-0.9)), -3 * kQuarter);
  EXPECT_EQ(Duration(Span<float>(0.5f)), absl::Milliseconds(500));
  EXPECT_EQ(Duration(Span<double, std::ratio<3600>>(1e15)), absl::Hours(1'000'000'000'000'000));
  EXPECT_EQ(Duration(Span<double>(-0x1p63)), absl::Seconds(kLeast));
}

TEST(DurationTest, FromFloatingPoint_WhoseSpanDoesNotFit_IsInfinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Duration(Span<double>(0x1p63)), absl::InfiniteDuration());
  EXPECT_EQ(Duration(Span<double>(-0x1p64)), -absl::InfiniteDuration());
  EXPECT_EQ(Duration(Span<double, std::nano>(kInfinity)), absl::InfiniteDuration());
  EXPECT_EQ(Duration(Span<double, std::nano>(-kInfinity)), -absl::InfiniteDuration());
  EXPECT_EQ(Duration(Span<long double, std::ratio<kMost>>(std::numeric_limits<long double>::max())),
            absl::InfiniteDuration());
}

}  // namespace
}  // namespace stockade
