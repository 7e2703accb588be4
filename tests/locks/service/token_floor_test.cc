#include "service/token_floor.h"

#include <gtest/gtest.h>

namespace stockade::locks_internal {
namespace {

constexpr Instant kStart = Instant::FromNanoseconds(5'000'000);  // 5,000 us.

TEST(TokenFloorTest, NothingSeen_IsZero) { EXPECT_EQ(TokenFloor().At(kStart), 0); }

TEST(TokenFloorTest, TheFloorGoesOnWithTheServersClock) {
  TokenFloor floor;
  floor.Note(9'000, kStart);
  EXPECT_EQ(floor.At(kStart), 9'000);
  EXPECT_EQ(floor.At(kStart + absl::Microseconds(30)), 9'030);
}

TEST(TokenFloorTest, TheServerThatIsFurthestAheadCounts) {
  TokenFloor floor;
  floor.Note(9'000, kStart);
  floor.Note(8'000, kStart);
  EXPECT_EQ(floor.At(kStart), 9'000);
  floor.Note(9'500, kStart);
  EXPECT_EQ(floor.At(kStart), 9'500);
  floor.Note(9'500, kStart + absl::Microseconds(100));  // Less far ahead.
  EXPECT_EQ(floor.At(kStart), 9'500);
}

TEST(TokenFloorTest, WhatIsNoTimeIsNotCounted) {
  constexpr int64_t kLargest = int64_t{1} << 52;
  TokenFloor floor;
  for (const int64_t token : {int64_t{0}, int64_t{-1}, kLargest + 1, INT64_MAX}) floor.Note(token, kStart);
  EXPECT_EQ(floor.At(kStart), 0);
  floor.Note(kLargest, kStart);
  EXPECT_EQ(floor.At(kStart), kLargest);
  EXPECT_EQ(floor.At(kStart + absl::Seconds(1)), kLargest);
}

}  // namespace
}  // namespace stockade::locks_internal
