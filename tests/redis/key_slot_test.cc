#include "key_slot.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace stockade::redis_internal {
namespace {

// The slots are what CLUSTER KEYSLOT of Redis 7.0 answers.
TEST(KeySlotTest, KeyWithoutBraces_IsHashedWhole) {
  EXPECT_EQ(KeySlot("123456789"), 0x31C3 & 0x3FFF);
  EXPECT_EQ(KeySlot("foo"), 12'182);
  EXPECT_EQ(KeySlot("bar"), 5061);
  EXPECT_EQ(KeySlot(""), 0);
}

TEST(KeySlotTest, BytesBeyondAscii_AreHashedAsUnsigned) {
  EXPECT_EQ(KeySlot("\xff\xfe\x80"), 11'813);
  EXPECT_NE(KeySlot(std::string_view("a\0b", 3)), KeySlot("a"));
}

TEST(KeySlotTest, KeysOfOneHashTag_ShareItsSlot) {
  EXPECT_EQ(KeySlot("user1000"), 3443);
  EXPECT_EQ(KeySlot("{user1000}.following"), 3443);
  EXPECT_EQ(KeySlot("cart:{user1000}"), 3443);
}

TEST(KeySlotTest, SeveralBraces_FirstOpeningToFirstClosingCounts) {
  EXPECT_EQ(KeySlot("foo{bar}{zap}"), KeySlot("bar"));
  EXPECT_EQ(KeySlot("foo{{bar}}zap"), 4015);
  EXPECT_EQ(KeySlot("foo{{bar}}zap"), KeySlot("{bar"));
}

TEST(KeySlotTest, EmptyHashTag_KeyIsHashedWhole) {
  EXPECT_EQ(KeySlot("foo{}{bar}"), 8363);
  EXPECT_EQ(KeySlot("{}"), 15'257);
}

TEST(KeySlotTest, UnpairedBraces_KeyIsHashedWhole) {
  EXPECT_EQ(KeySlot("a{b"), 13'340);
  EXPECT_EQ(KeySlot("}{"), 12'793);
  EXPECT_EQ(KeySlot("a}b{c"), 13'587);
}

TEST(KeySlotTest, ManyKeys_AreInRangeAndSpread) {
  int in_upper_half = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint16_t slot = KeySlot(std::to_string(i));
    ASSERT_LT(slot, kKeySlots) << i;
    in_upper_half += slot >= kKeySlots / 2 ? 1 : 0;
  }
  EXPECT_GT(in_upper_half, 400);
  EXPECT_LT(in_upper_half, 600);
}

}  // namespace
}  // namespace stockade::redis_internal
