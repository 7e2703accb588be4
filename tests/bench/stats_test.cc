#include "harness/stats.h"

#include <gtest/gtest.h>

namespace stockade::bench {
namespace {

TEST(MedianTest, OddCount_IsTheMiddleOne) { EXPECT_EQ(Median({9, 1, 5, 100, 2}), 5); }

TEST(MedianTest, EvenCount_IsTheMeanOfTheMiddleTwo) { EXPECT_EQ(Median({4, 100, 1, 2}), 3); }

TEST(MedianTest, OneValue_IsIt) { EXPECT_EQ(Median({7}), 7); }

TEST(MedianTest, EqualValues_AreTheMedian) { EXPECT_EQ(Median({3, 3, 3, 3}), 3); }

TEST(MedianDeathTest, NoValues_Aborts) { EXPECT_DEATH(Median({}), "no values"); }

}  // namespace
}  // namespace stockade::bench
