#include "locks/write_pattern.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stockade::bench {
namespace {

TEST(WritePatternTest, Share_IsExact) {
  for (const size_t writes : {0, 10, 100, 500, 1000}) {
    const WritePattern pattern(3, writes);
    EXPECT_EQ(std::ranges::count(pattern.is_write(), true), static_cast<std::ptrdiff_t>(writes));
  }
}

TEST(WritePatternTest, TwoSeeds_HaveTwoOrders) {
  EXPECT_NE(WritePattern(0, 100).is_write(), WritePattern(1, 100).is_write());
  EXPECT_EQ(WritePattern(0, 100).is_write(), WritePattern(0, 100).is_write());
}

TEST(WritePatternTest, Writes_AreSpreadOverTheWhole) {
  const WritePattern pattern(0, 500);
  const auto& is_write = pattern.is_write();
  // Six standard deviations on either side; unshuffled, the first half would have all of them.
  const auto in_first_half = std::count(is_write.begin(), is_write.begin() + WritePattern::kOps / 2, true);
  EXPECT_GT(in_first_half, 200);
  EXPECT_LT(in_first_half, 300);
}

}  // namespace
}  // namespace stockade::bench
