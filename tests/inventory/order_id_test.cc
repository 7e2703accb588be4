#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stockade/inventory/order.h"

namespace stockade {
namespace {

using ::testing::HasSubstr;

TEST(OrderIdTest, Text_IsReadBack) {
  for (const OrderId id : {OrderId{1}, OrderId{10}, (OrderId{1} << 53) + 1, OrderId{1} << 63, UINT64_MAX}) {
    EXPECT_EQ(ParseOrderId(OrderIdText(id)).value(), id);
  }
  EXPECT_EQ(OrderIdText(9007199254740993), "9007199254740993");
}

TEST(OrderIdTest, OtherTexts_AreInvalidAndNamed) {
  for (const char* const text : {"", "0", "01", "+1", "-1", " 1", "1 ", "1.0", "0x1", "1e3", "18446744073709551616",
                                 "99999999999999999999", "100000000000000000000", "one"}) {
    const absl::Status status = ParseOrderId(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + std::string(text) + "' is not the id of an order"));
  }
  EXPECT_LT(ParseOrderId(std::string(100'000, '1')).status().message().size(), 300U);
  EXPECT_FALSE(ParseOrderId(std::string("1\0", 2)).ok());
}

}  // namespace
}  // namespace stockade
