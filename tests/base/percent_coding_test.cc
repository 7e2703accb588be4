#include "stockade/base/percent_coding.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace stockade::base_internal {
namespace {

TEST(PercentCodingTest, EveryByte_ComesBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string encoded = PercentEncode(all);
  EXPECT_EQ(FindBadEscape(encoded), std::nullopt);
  EXPECT_EQ(PercentDecode(encoded), all);
}

TEST(PercentCodingTest, Encode_LeavesUnreservedAndPlainBytes) {
  EXPECT_EQ(PercentEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncode("/a b\xff+"), "%2Fa%20b%FF%2B");
  EXPECT_EQ(PercentEncode("/a b", "/"), "/a%20b");
}

TEST(PercentCodingTest, Decode_TakesEitherCaseAndLeavesPlus) {
  EXPECT_EQ(PercentDecode("%2f%2F+"), "//+");
  EXPECT_EQ(PercentDecode("%00x"), std::string_view("\0x", 2));
  EXPECT_EQ(PercentDecode("%2525"), "%25");
}

TEST(PercentCodingTest, BadEscape_IsFoundWhereItStands) {
  EXPECT_EQ(FindBadEscape("a%41%4"), 4);
  EXPECT_EQ(FindBadEscape("%"), 0);
  EXPECT_EQ(FindBadEscape("%%41"), 0);
  EXPECT_EQ(FindBadEscape("%4g"), 0);
  EXPECT_EQ(FindBadEscape("%-1"), 0);
  EXPECT_EQ(FindBadEscape("%41%zz"), 3);
  EXPECT_EQ(FindBadEscape("%41"), std::nullopt);
}

}  // namespace
}  // namespace stockade::base_internal
