#include "audit.h"

#include <gtest/gtest.h>

namespace flash_sale {
namespace {

TEST(AuditTest, ExplainOversold_TellsTheWorstMomentFromTheEnd) {
  EXPECT_EQ(ExplainOversold({.stock = 2000, .sold = 2013, .available = -13, .oversold = 16}),
            "oversold: at the worst moment 16 units more than the stock of 2000 were held or sold; at the end 13 are "
            "(available=-13): cancelled and expired units have come back");
  EXPECT_EQ(ExplainOversold({.stock = 10, .sold = 12, .available = -2, .oversold = 2}),
            "oversold: at the worst moment 2 units more than the stock of 10 were held or sold; at the end 2 are "
            "(available=-2)");
  EXPECT_EQ(ExplainOversold({.stock = 2000, .sold = 2000}), "");
}

}  // namespace
}  // namespace flash_sale
