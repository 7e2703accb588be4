#include "harness/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace stockade::bench {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Comparison Named(const std::string& name, const std::string& target = "-") {
  return {.name = name, .unit = "ns/op", .peer = "std::mutex", .target = target};
}

Comparison HigherIsBetter(const std::string& target) {
  return {.name = "a", .unit = "M/s", .peer = "std::mutex", .better = Better::kHigher, .target = target};
}

TEST(MakeRowTest, Row_HasTheNineKeysInTheirOrder) {
  EXPECT_EQ(MakeRow(Named("alone", "<= 0.6"), 5, 10).dump(),
            R"({"name":"alone","value":5.0,"unit":"ns/op","peer":"std::mutex","peer_value":10.0,)"
            R"("better":"lower","ratio":0.5,"target":"<= 0.6","holds":true})");
  EXPECT_EQ(MakeRow(HigherIsBetter("-"), 5, 10)["better"], "higher");
}

TEST(MakeRowTest, RatioTarget_BoundsTheRatio) {
  EXPECT_EQ(MakeRow(Named("a", "<= 0.6"), 6, 10)["holds"], true);
  EXPECT_EQ(MakeRow(Named("a", "<= 0.6"), 6.1, 10)["holds"], false);
  EXPECT_EQ(MakeRow(HigherIsBetter(">= 12"), 120, 10)["holds"], true);
  EXPECT_EQ(MakeRow(HigherIsBetter(">= 12"), 119, 10)["holds"], false);
}

TEST(MakeRowTest, TargetWithUnit_BoundsTheValue) {
  EXPECT_EQ(MakeRow(Named("a", "<= 2 ns/op"), 2, 1)["holds"], true);
  EXPECT_EQ(MakeRow(Named("a", "<= 2 ns/op"), 2.5, 100)["holds"], false);
  EXPECT_EQ(MakeRow(Named("a", "= 1 ns/op"), 1, 100)["holds"], true);
  EXPECT_EQ(MakeRow(Named("a", "= 1 ns/op"), 2, 100)["holds"], false);
}

TEST(MakeRowTest, DifferenceTarget_BoundsTheDifference) {
  EXPECT_EQ(MakeRow(HigherIsBetter("difference >= -0.5"), 9.5, 10)["holds"], true);
  EXPECT_EQ(MakeRow(HigherIsBetter("difference >= -0.5"), 9.4, 10)["holds"], false);
  EXPECT_EQ(MakeRow(HigherIsBetter("difference >= -0.5"), 0, 0)["holds"], true) << "there is no ratio";
  EXPECT_EQ(MakeRow(Named("a", "difference <= 1"), 11, 10)["holds"], true);
  EXPECT_EQ(MakeRow(Named("a", "difference <= 1"), 11.1, 10)["holds"], false);
}

TEST(MakeRowTest, NoTarget_HoldsIsNull) { EXPECT_EQ(MakeRow(Named("a"), 1, 2)["holds"], nullptr); }

TEST(MakeRowTest, PeerOfZero_HasNoRatioAndIsShort) {
  const Json row = MakeRow(HigherIsBetter(">= 2"), 1, 0);
  EXPECT_EQ(row["ratio"], nullptr);
  EXPECT_EQ(row["holds"], false);
  EXPECT_EQ(MakeRow(Named("a", "<= 2"), 0, 0)["holds"], false);
}

TEST(MakeRowTest, InfiniteFigure_IsNull) {
  EXPECT_EQ(MakeRow(Named("a"), std::numeric_limits<double>::infinity(), 1)["value"], nullptr);
}

TEST(MakeRowTest, MissingPeer_LeavesOnlyWhatDoesNotNeedIt) {
  const Json ratio = MakeRow(Named("a", "<= 0.6"), 6, kNone);
  EXPECT_EQ(ratio["value"], 6);
  EXPECT_EQ(ratio["peer_value"], nullptr);
  EXPECT_EQ(ratio["ratio"], nullptr);
  EXPECT_EQ(ratio["holds"], nullptr);
  EXPECT_EQ(MakeRow(Named("a", "difference <= 1"), 6, kNone)["holds"], nullptr);
  EXPECT_EQ(MakeRow(Named("a", "<= 6 ns/op"), 6, kNone)["holds"], true);
  EXPECT_EQ(MakeRow(Named("a", "<= 6 ns/op"), kNone, 6)["holds"], nullptr);
}

TEST(MakeRowDeathTest, TargetThatIsMalformedOrAgainstItsDirection_Aborts) {
  for (const char* target : {"", "0.6", "<= ", "< 0.6", "<= 0.6 M/s", "= 0.6ns/op", ">= 0.6", "difference >= 1"}) {
    EXPECT_DEATH(MakeRow(Named("row", target), 1, 1), "'row': its target is malformed or contradicts") << target;
  }
}

class PairReporterTest : public ::testing::Test {
 protected:
  using Run = benchmark::BenchmarkReporter::Run;

  PairReporterTest() { reporter_.SetOutputStream(&out_); }

  void Start() { reporter_.ReportContext(benchmark::BenchmarkReporter::Context()); }

  void Report(const Comparison& row, bool is_ours, const std::map<std::string, double>& figures) {
    Run run;
    run.run_name.function_name = NameOf(row, is_ours);
    for (const auto& [name, figure] : figures) run.counters[name] = figure;
    reporter_.ReportRuns({run});
  }

  std::vector<Suite::Entry> entries_;
  std::ostringstream out_;
  PairReporter reporter_{entries_};
};

TEST_F(PairReporterTest, Repetitions_BecomeTheirMedians) {
  entries_ = {{{Named("a")}, {}}};
  Start();
  for (const double figure : {1000.0, 10.0, 12.0}) {
    Report(entries_[0].rows[0], true, {{"ns/op", figure}});
    Report(entries_[0].rows[0], false, {{"ns/op", 2 * figure}});
  }
  Report(entries_[0].rows[0], true, {{"ns/op", 11}});
  reporter_.Finalize();
  ASSERT_EQ(reporter_.rows().size(), 1);
  EXPECT_EQ(reporter_.rows()[0]["value"], 11.5);
  EXPECT_EQ(reporter_.rows()[0]["peer_value"], 24);
}

TEST_F(PairReporterTest, SeveralCounters_AreSeveralRows) {
  Comparison p50 = Named("p50");
  Comparison p99 = Named("p99");
  p50.counter = "p50";
  p99.counter = "p99";
  entries_ = {{{p50, p99}, {}}};
  Start();
  Report(p50, true, {{"p50", 1}, {"p99", 2}});
  Report(p50, false, {{"p50", 4}, {"p99", 16}});
  reporter_.Finalize();
  ASSERT_EQ(reporter_.rows().size(), 2);
  EXPECT_EQ(reporter_.rows()[0]["ratio"], 0.25);
  EXPECT_EQ(reporter_.rows()[1]["ratio"], 0.125);
}

TEST_F(PairReporterTest, Pair_IsPrintedWhenTheNextOneBegins) {
  entries_ = {{{Named("first", "<= 0.6")}, {}}, {{Named("second")}, {}}};
  Start();
  EXPECT_THAT(out_.str(), ::testing::ContainsRegex("^name +value +unit +peer +peer's +ratio +target +holds\n$"));
  Report(entries_[0].rows[0], true, {{"ns/op", 1234567.8}});
  Report(entries_[0].rows[0], false, {{"ns/op", 1}});
  EXPECT_THAT(out_.str(), ::testing::Not(HasSubstr("first")));
  Report(entries_[1].rows[0], true, {{"ns/op", 1}});
  EXPECT_THAT(out_.str(),
              ::testing::ContainsRegex("\nfirst +1234568 +ns/op +std::mutex +1 +1234568 +<= 0.6 +short\n$"));
}

TEST_F(PairReporterTest, RowWhosePeerDidNotRun_HasDashesAndNulls) {
  entries_ = {{{Named("a", "<= 0.6")}, {}}, {{Named("b")}, {}}};
  Start();
  Report(entries_[0].rows[0], true, {{"ns/op", 2.5}});
  reporter_.Finalize();
  ASSERT_EQ(reporter_.rows().size(), 1) << "b did not run at all";
  EXPECT_EQ(reporter_.rows()[0]["peer_value"], nullptr);
  EXPECT_THAT(out_.str(), ::testing::ContainsRegex("\na +2.5 +ns/op +std::mutex +- +- +<= 0.6 +-\n$"));
}

}  // namespace
}  // namespace stockade::bench
