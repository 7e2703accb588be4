#include "measure/durations.h"

#include <gtest/gtest.h>

namespace stockade::bench {
namespace {

TEST(DurationsTest, NoneAdded_PercentileIsZero) { EXPECT_EQ(Durations().Percentile(0.5), 0); }

TEST(DurationsTest, SmallDurations_AreExact) {
  Durations durations;
  for (uint64_t i = 0; i < 32; ++i) durations.Add(i);
  EXPECT_EQ(durations.count(), 32);
  EXPECT_EQ(durations.Percentile(0), 0);
  EXPECT_EQ(durations.Percentile(0.5), 16);
  EXPECT_EQ(durations.Percentile(0.99), 31);
}

TEST(DurationsTest, AnyDuration_IsRoundedDownByLessThanOnePartIn32) {
  for (uint64_t duration = 1; duration < uint64_t{1} << 62; duration += duration / 7 + 1) {
    for (const uint64_t at : {duration - 1, duration, duration + 1}) {
      Durations durations;
      durations.Add(at);
      EXPECT_LE(durations.Percentile(0.5), at);
      EXPECT_GE(durations.Percentile(0.5), at - at / 32) << at;
    }
  }
}

TEST(DurationsTest, FewLongOnes_ShowInTheHighPercentilesOnly) {
  Durations durations;
  Durations others;
  for (int i = 0; i < 4'990; ++i) durations.Add(16);
  for (int i = 0; i < 4'990; ++i) others.Add(16);
  for (int i = 0; i < 20; ++i) others.Add(1 << 20);
  durations.AddAll(others);
  EXPECT_EQ(durations.count(), 10'000);
  EXPECT_EQ(durations.Percentile(0.99), 16);
  EXPECT_EQ(durations.Percentile(0.9979), 16);
  EXPECT_EQ(durations.Percentile(0.9981), 1 << 20);
  EXPECT_EQ(durations.Percentile(0.9999), 1 << 20);
}

}  // namespace
}  // namespace stockade::bench
