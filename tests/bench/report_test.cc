#include "harness/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace stockade::bench {
namespace {

Comparison Named(std::string name, Target target) {
  return {.name = std::move(name), .unit = "ns/op", .peer = "std::mutex", .target = target, .prepare = {}};
}

TEST(MakeRowTest, RatioTarget_IsHeldAgainstTheRatio) {
  EXPECT_EQ(MakeRow(Named("a", Target::RatioAtMost(0.6)), 6, 10).holds, true);
  EXPECT_EQ(MakeRow(Named("a", Target::RatioAtMost(0.6)), 6.1, 10).holds, false);
  EXPECT_EQ(MakeRow(Named("a", Target::RatioAtLeast(12)), 120, 10).holds, true);
  EXPECT_EQ(MakeRow(Named("a", Target::RatioAtLeast(12)), 119, 10).holds, false);
}

TEST(MakeRowTest, ValueTarget_IsHeldAgainstTheValue) {
  EXPECT_EQ(MakeRow(Named("a", Target::ValueAtMost(2)), 2, 1).holds, true);
  EXPECT_EQ(MakeRow(Named("a", Target::ValueAtMost(2)), 2.5, 100).holds, false);
  EXPECT_EQ(MakeRow(Named("a", Target::ValueExactly(1)), 1, 100).holds, true);
  EXPECT_EQ(MakeRow(Named("a", Target::ValueExactly(1)), 2, 100).holds, false);
}

TEST(MakeRowTest, DifferenceTarget_IsHeldAgainstTheDifference) {
  EXPECT_EQ(MakeRow(Named("a", Target::DifferenceAtLeast(-0.5)), 9.5, 10).holds, true);
  EXPECT_EQ(MakeRow(Named("a", Target::DifferenceAtLeast(-0.5)), 9.4, 10).holds, false);
  EXPECT_EQ(MakeRow(Named("a", Target::DifferenceAtLeast(-0.5)), 0, 0).holds, true) << "there is no ratio";
  EXPECT_EQ(MakeRow(Named("a", Target::DifferenceAtMost(1)), 11, 10).holds, true);
  EXPECT_EQ(MakeRow(Named("a", Target::DifferenceAtMost(1)), 11.1, 10).holds, false);
}

TEST(MakeRowTest, NoTarget_HoldsNothing) {
  const Row row = MakeRow(Named("a", Target::None()), 1, 2);
  EXPECT_EQ(row.target, "-");
  EXPECT_EQ(row.holds, std::nullopt);
  EXPECT_EQ(row.ratio, 0.5);
}

TEST(MakeRowTest, PeerOfZero_HasNoRatioAndIsShort) {
  const Row row = MakeRow(Named("a", Target::RatioAtLeast(2)), 1, 0);
  EXPECT_EQ(row.ratio, std::nullopt);
  EXPECT_EQ(row.holds, false);
}

TEST(TargetTextTest, SaysBoundLimitAndUnit) {
  EXPECT_EQ(TargetText(Target::RatioAtMost(0.6), "ns"), "<= 0.6");
  EXPECT_EQ(TargetText(Target::RatioAtLeast(12), "M/s"), ">= 12");
  EXPECT_EQ(TargetText(Target::ValueAtMost(2), "ns/op"), "<= 2 ns/op");
  EXPECT_EQ(TargetText(Target::DifferenceAtLeast(-0.5), "%"), "difference >= -0.5");
  EXPECT_EQ(TargetText(Target::DifferenceAtMost(1), "ns"), "difference <= 1");
  EXPECT_EQ(TargetText(Target::ValueExactly(1), "loads"), "= 1 loads");
  EXPECT_EQ(TargetText(Target::None(), "ns"), "-");
}

TEST(TableFormatTest, RowsLineUpUnderTheHeader) {
  const Comparison comparisons[] = {Named("re-entry", Target::ValueAtMost(2)),
                                    Named("alone", Target::RatioAtMost(0.6))};
  const TableFormat table(comparisons);
  EXPECT_EQ(table.Header(), "name          value  unit   peer           peer's      ratio  target      holds");
  EXPECT_EQ(table.Line(MakeRow(comparisons[0], 1.25, 2.5)),
            "re-entry       1.25  ns/op  std::mutex        2.5        0.5  <= 2 ns/op  holds");
  EXPECT_EQ(table.Line(MakeRow(comparisons[1], 1234567.8, 1)),
            "alone       1234568  ns/op  std::mutex          1    1234568  <= 0.6      short");
}

TEST(TableFormatTest, NoTargetAndNoRatio_AreDashes) {
  const Comparison comparisons[] = {Named("a", Target::None())};
  EXPECT_EQ(TableFormat(comparisons).Line(MakeRow(comparisons[0], 1, 0)),
            "a             1  ns/op  std::mutex          0          -  -       -");
}

TEST(JsonTest, ListOfObjectsWithTheNineKeys) {
  const Row rows[] = {MakeRow(Named("alone", Target::RatioAtMost(0.6)), 5, 10),
                      MakeRow(Named("a", Target::None()), 1, 2)};
  EXPECT_EQ(Json(rows),
            "[\n"
            "  {\"name\": \"alone\", \"value\": 5, \"unit\": \"ns/op\", \"peer\": \"std::mutex\", \"peer_value\": 10, "
            "\"better\": \"lower\", \"ratio\": 0.5, \"target\": \"<= 0.6\", \"holds\": true},\n"
            "  {\"name\": \"a\", \"value\": 1, \"unit\": \"ns/op\", \"peer\": \"std::mutex\", \"peer_value\": 2, "
            "\"better\": \"lower\", \"ratio\": 0.5, \"target\": \"-\", \"holds\": null}\n"
            "]\n");
}

TEST(JsonTest, HigherIsBetter_IsToldFromLower) {
  Comparison rate = Named("a", Target::None());
  rate.better = Better::kHigher;
  const Row rows[] = {MakeRow(rate, 1, 2)};
  EXPECT_THAT(Json(rows), ::testing::HasSubstr("\"better\": \"higher\""));
}

TEST(JsonTest, NoRows_IsAnEmptyList) { EXPECT_EQ(Json({}), "[]\n"); }

TEST(JsonTest, WhatIsNoNumber_IsNull) {
  const Row rows[] = {MakeRow(Named("a", Target::RatioAtMost(1)), std::numeric_limits<double>::infinity(), 0)};
  EXPECT_THAT(Json(rows), ::testing::HasSubstr("\"value\": null"));
  EXPECT_THAT(Json(rows), ::testing::HasSubstr("\"ratio\": null"));
  EXPECT_THAT(Json(rows), ::testing::HasSubstr("\"holds\": false"));
}

TEST(JsonStringTest, QuotesBackslashesAndControls_AreEscaped) {
  EXPECT_EQ(JsonString("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(JsonString("line\nend\x01"), R"("line\u000aend\u0001")");
}

TEST(JsonStringTest, Utf8_IsPassedOn) { EXPECT_EQ(JsonString("µs"), "\"µs\""); }

}  // namespace
}  // namespace stockade::bench
