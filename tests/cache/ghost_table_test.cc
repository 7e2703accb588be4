#include <gtest/gtest.h>

#include "eviction.h"

namespace stockade::cache_internal {
namespace {

using Queue = GhostTable::Queue;

TEST(GhostTableTest, Take_NothingRemembered_IsNone) {
  GhostTable ghosts;
  EXPECT_FALSE(ghosts.Take(0, {10, 10}).has_value());
  EXPECT_FALSE(ghosts.Take(1, {10, 10}).has_value());
}

TEST(GhostTableTest, Take_Remembered_TellsQueueAndAgeOnce) {
  GhostTable ghosts;
  const GhostTable::Rooms rooms{10, 10};
  ghosts.Remember(0, Queue::kSmall, rooms);
  ghosts.Remember(1, Queue::kMain, rooms);
  ghosts.Remember(2, Queue::kSmall, rooms);
  EXPECT_FALSE(ghosts.Take(3, rooms).has_value());
  const auto zero = ghosts.Take(0, rooms);
  ASSERT_TRUE(zero.has_value());
  EXPECT_EQ(zero->queue, Queue::kSmall);
  EXPECT_EQ(zero->age, 1u);
  const auto one = ghosts.Take(1, rooms);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->queue, Queue::kMain);
  EXPECT_EQ(one->age, 0u) << "only main's own evictions age it";
  EXPECT_FALSE(ghosts.Take(0, rooms).has_value());
  EXPECT_FALSE(ghosts.Take(1, rooms).has_value());
  EXPECT_TRUE(ghosts.Take(2, rooms).has_value());
}

TEST(GhostTableTest, Take_AgedOutOfItsQueuesRoom_IsNone) {
  GhostTable ghosts;
  const GhostTable::Rooms rooms{4, 2};
  for (uint64_t hash = 0; hash < 5; ++hash) ghosts.Remember(hash, Queue::kSmall, rooms);
  for (uint64_t hash = 10; hash < 13; ++hash) ghosts.Remember(hash, Queue::kMain, rooms);
  EXPECT_FALSE(ghosts.Take(0, rooms).has_value());
  EXPECT_FALSE(ghosts.Take(10, rooms).has_value());
  for (const uint64_t hash : {1, 4, 11, 12}) EXPECT_TRUE(ghosts.Take(hash, rooms).has_value()) << hash;
}

// Half-way through the rooms grow, so the table has to move what it holds.
TEST(GhostTableTest, Take_FullTable_FindsNearlyAllThatLiveAndFewOthers) {
  for (const uint64_t stride : {uint64_t{1}, uint64_t{16}, uint64_t{1} << 32, uint64_t{0x9E3779B97F4A7C15}}) {
    GhostTable ghosts;
    constexpr uint32_t kSmall = 18'000, kMain = 2'000;
    for (uint64_t i = 0; i < 3 * kSmall; ++i) {
      const uint32_t half = i < 2 * kSmall + kSmall / 2 ? 2 : 1;
      const GhostTable::Rooms rooms{kSmall / half, kMain / half};
      ghosts.Remember(i * stride, Queue::kSmall, rooms);
      if (i % 9 == 0) ghosts.Remember((1'000'000 + i / 9) * stride, Queue::kMain, rooms);
    }
    EXPECT_LE(ghosts.bytes(), (kSmall + kMain) * 16 + 64);
    const GhostTable::Rooms rooms{kSmall, kMain};
    int64_t found = 0, dead = 0, strangers = 0;
    for (uint64_t i = 2 * kSmall + kSmall / 2; i < 3 * kSmall; ++i) {
      found += ghosts.Take(i * stride, rooms).has_value() ? 1 : 0;
    }
    for (uint64_t i = 0; i < 2 * kSmall; ++i) dead += ghosts.Take(i * stride, rooms).has_value() ? 1 : 0;
    for (uint64_t i = 0; i < 100'000; ++i)
      strangers += ghosts.Take((2'000'000 + i) * stride, rooms).has_value() ? 1 : 0;
    EXPECT_GE(found, static_cast<int64_t>(kSmall / 2 * 98 / 100)) << "stride " << stride;
    EXPECT_LE(dead, 10) << "stride " << stride;
    EXPECT_LE(strangers, 20) << "stride " << stride;
  }
}

}  // namespace
}  // namespace stockade::cache_internal
