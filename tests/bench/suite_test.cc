#include "harness/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "support/temp_dir.h"

namespace stockade::bench {
namespace {

Comparison Fixed(std::string name, double ours, double peer) {
  return {.name = std::move(name),
          .unit = "ns",
          .peer = "other",
          .target = Target::RatioAtMost(1),
          .prepare = [=](const Scale&) {
            return Contestants{[=] { return ours; }, [=] { return peer; }};
          }};
}

std::string Contents(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RunComparisonTest, ContestantsTakeTurns_AtLeastFiveTimesAfterAWarmUp) {
  auto order = std::make_shared<std::string>();
  const Row row = RunComparison(
      {.name = "turns",
       .unit = "ns",
       .peer = "other",
       .prepare =
           [=](const Scale&) {
             return Contestants{[=] { return order->push_back('A'), 1.0; }, [=] { return order->push_back('B'), 2.0; }};
           }},
      Scale{});
  ASSERT_GE(order->size(), 2u * (1 + 5));
  for (size_t i = 0; i < order->size(); ++i) EXPECT_EQ((*order)[i], i % 2 == 0 ? 'A' : 'B');
  EXPECT_EQ(row.ratio, 0.5);
}

TEST(RunComparisonTest, WarmUpAndOutliers_DoNotShow) {
  auto calls = std::make_shared<int>(0);
  const Row row =
      RunComparison({.name = "outliers",
                     .unit = "ns",
                     .peer = "other",
                     .prepare =
                         [=](const Scale&) {
                           return Contestants{[=] { return ++*calls <= 3 ? 1000.0 : 10.0; }, [] { return 1.0; }};
                         }},
                    Scale{});
  EXPECT_EQ(row.value, 10);
}

TEST(SuiteDeathTest, SameRowTwice_Aborts) {
  Suite suite;
  suite.Add(Fixed("row", 1, 2));
  EXPECT_DEATH(suite.Add(Fixed("row", 1, 2)), "'row' against 'other' is defined twice");
}

TEST(SuiteDeathTest, TargetAgainstItsDirection_Aborts) {
  Suite suite;
  Comparison wrong = Fixed("row", 1, 2);
  wrong.better = Better::kHigher;
  EXPECT_DEATH(suite.Add(wrong), "'row': its target's bound contradicts");
}

TEST(SuiteTest, Filter_KeepsNamesAndPeersThatContainIt) {
  Suite suite;
  suite.Add(Fixed("alone", 1, 2));
  suite.Add(Fixed("two threads", 1, 2));
  suite.Filter("thr");
  ASSERT_EQ(suite.comparisons().size(), 1u);
  EXPECT_EQ(suite.comparisons()[0].name, "two threads");
  suite.Filter("other");
  EXPECT_EQ(suite.comparisons().size(), 1u);
}

class BenchMainTest : public ::testing::Test {
 protected:
  int Run(std::vector<const char*> args) {
    args.insert(args.begin(), "build/bench_area");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = BenchMain(static_cast<int>(args.size()), args.data(), [](Suite& suite) {
      suite.Add(Fixed("fast", 1, 2));
      suite.Add(Fixed("slow", 3, 2));
      suite.LeaveOut("fast against nsync", "nsync was not found");
    });
    out_ = ::testing::internal::GetCapturedStdout();
    error_ = ::testing::internal::GetCapturedStderr();
    return status;
  }

  const stockade::testing::TempDir dir_;  // One a test: ctest runs them beside each other.
  const std::string file_ = dir_.File("results/rows.json");
  std::string out_;
  std::string error_;
};

TEST_F(BenchMainTest, ShortRows_AreShownAndAreNoFailure) {
  EXPECT_EQ(Run({"--quick", "--json", file_.c_str()}), 0);
  EXPECT_THAT(out_, ::testing::ContainsRegex("fast .* holds\n"));
  EXPECT_THAT(out_, ::testing::ContainsRegex("slow .* short\n"));
  EXPECT_THAT(out_, ::testing::HasSubstr("left out: fast against nsync: nsync was not found\n"));
  EXPECT_THAT(Contents(file_), ::testing::HasSubstr("\"name\": \"slow\", \"value\": 3"));
}

TEST_F(BenchMainTest, Filter_RunsOnlyWhatMatches) {
  EXPECT_EQ(Run({"--filter", "slow", "--json", file_.c_str()}), 0);
  EXPECT_THAT(Contents(file_), ::testing::Not(::testing::HasSubstr("fast")));
}

TEST_F(BenchMainTest, FilterThatLeavesNoRow_HasAStatusOfItsOwnAndWritesNothing) {
  EXPECT_EQ(Run({"--filter", "nothing", "--json", file_.c_str()}), 3);
  EXPECT_EQ(error_, "bench_area: no row has 'nothing' in it\n");
  EXPECT_EQ(out_, "");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(BenchMainTest, List_RunsNothing) {
  EXPECT_EQ(Run({"--list"}), 0);
  EXPECT_EQ(out_,
            "fast [ns, lower is better] against other, target <= 1\n"
            "slow [ns, lower is better] against other, target <= 1\n");
}

TEST_F(BenchMainTest, BadInput_IsOneLineAndStatusTwo) {
  EXPECT_EQ(Run({"--fast"}), 2);
  EXPECT_EQ(error_, "bench_area: unknown option '--fast'; try --help\n");
  EXPECT_EQ(Run({"--json", "/dev/null/rows.json"}), 2);
  EXPECT_EQ(error_, "bench_area: cannot write /dev/null/rows.json\n");
  EXPECT_EQ(out_, "");
}

}  // namespace
}  // namespace stockade::bench
