#include "measure/bench_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "support/temp_dir.h"

namespace stockade::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Comparison RowNamed(const std::string& name) { return {.name = name, .unit = "ns", .peer = "other", .target = "<= 1"}; }

Pair Fixed(double ours, double peer) {
  return {.prepare = [=](const Scale&) -> Contestants {
    return {[=](Worker&) { return ours; }, [=](Worker&) { return peer; }};
  }};
}

TEST(SuiteDeathTest, SameRowTwice_Aborts) {
  Suite suite(false);
  suite.Add(RowNamed("row"), Fixed(1, 2));
  EXPECT_DEATH(suite.Add(RowNamed("row"), Fixed(1, 2)), "'row' against 'other' is defined twice");
}

TEST(SuiteDeathTest, TargetAgainstItsDirection_Aborts) {
  Suite suite(false);
  Comparison wrong = RowNamed("row");
  wrong.better = Better::kHigher;
  EXPECT_DEATH(suite.Add(wrong, Fixed(1, 2)), "'row': its target is malformed or contradicts");
}

class BenchMainTest : public ::testing::Test {
 protected:
  int Run(std::vector<const char*> args) {
    args.insert(args.begin(), "build/bench_area");
    args.insert(args.begin() + 1, "--benchmark_filter=all");  // Google Benchmark keeps flags of earlier tests.
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = BenchMain(static_cast<int>(args.size()), args.data(), add_rows_);
    out_ = ::testing::internal::GetCapturedStdout();
    error_ = ::testing::internal::GetCapturedStderr();
    return status;
  }

  nlohmann::json Rows() const {
    std::ifstream in(file_);
    return nlohmann::json::parse(in);
  }

  const stockade::testing::TempDir dir_;  // One a test: ctest runs them beside each other.
  const std::string file_ = dir_.File("results/rows.json");
  std::function<void(Suite&)> add_rows_ = [](Suite& suite) {
    suite.Add(RowNamed("fast"), Fixed(1, 2));
    suite.Add(RowNamed("slow"), Fixed(3, 2));
    suite.LeaveOut("fast against nsync", "nsync was not found");
  };
  std::string out_;
  std::string error_;
};

TEST_F(BenchMainTest, ShortRows_AreShownAndAreNoFailure) {
  EXPECT_EQ(Run({"--quick", "--json", file_.c_str()}), 0);
  EXPECT_THAT(out_, ContainsRegex("fast .* holds\n"));
  EXPECT_THAT(out_, ContainsRegex("slow .* short\n"));
  EXPECT_THAT(out_, HasSubstr("left out: fast against nsync: nsync was not found\n"));
  ASSERT_EQ(Rows().size(), 2);
  EXPECT_EQ(Rows()[1]["name"], "slow");
  EXPECT_EQ(Rows()[1]["value"], 3);
}

TEST_F(BenchMainTest, Pair_TakesTurnsAfterOneWarmUpEach) {
  std::string order;
  int prepared = 0;
  add_rows_ = [&](Suite& suite) {
    suite.Add(RowNamed("turns"), {.prepare = [&](const Scale&) -> Contestants {
                ++prepared;
                return {[&](Worker&) { return order += 'A', order.size() == 1 ? 1000.0 : 10.0; },
                        [&](Worker&) { return order += 'B', 1.0; }};
              }});
  };
  EXPECT_EQ(Run({"--json", file_.c_str()}), 0);
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(order, "AABBABABABABABAB");
  EXPECT_EQ(Rows()[0]["value"], 10);
}

TEST_F(BenchMainTest, Threads_RunTogetherAndTheirTimeIsTheFigure) {
  std::atomic<size_t> most = 0;
  add_rows_ = [&](Suite& suite) {
    suite.Add(RowNamed("threads"), {.threads = 3, .peer_threads = 1, .prepare = [&](const Scale&) -> Contestants {
                                      const auto count = [&](Worker& worker) {
                                        worker.RunOps(1, [&](size_t, int64_t) { ++most; });
                                        return static_cast<double>(worker.threads());
                                      };
                                      return {count, count};
                                    }});
  };
  const std::string out = dir_.File("out.json");
  EXPECT_EQ(Run({("--benchmark_out=" + out).c_str(), "--json", file_.c_str()}), 0);
  EXPECT_EQ(most, (1 + kRepetitions) * (3u + 1u));
  EXPECT_EQ(Rows()[0]["value"], 3);
  EXPECT_EQ(Rows()[0]["peer_value"], 1);
  std::ifstream in(out);
  const auto runs = nlohmann::json::parse(in)["benchmarks"];
  ASSERT_EQ(runs.size(), 2 * kRepetitions);
  EXPECT_EQ(runs[0]["threads"], 3);
  EXPECT_NEAR(runs[0]["real_time"], 3, 1e-6);
  EXPECT_NEAR(runs[1]["real_time"], 1, 1e-6);
  EXPECT_EQ(Run({"--benchmark_out="}), 0);  // For the tests that follow.
}

TEST_F(BenchMainTest, ObjectsOfAPair_AreGoneBeforeTheNextOneIsPrepared) {
  std::weak_ptr<int> world;
  add_rows_ = [&](Suite& suite) {
    for (const char* name : {"first", "second"}) {
      suite.Add(RowNamed(name), {.prepare = [&](const Scale&) -> Contestants {
                  EXPECT_TRUE(world.expired());
                  const auto made = std::make_shared<int>(3);
                  world = made;
                  return {[made](Worker&) { return *made; }, [made](Worker&) { return *made; }};
                }});
    }
  };
  EXPECT_EQ(Run({}), 0);
  EXPECT_TRUE(world.expired());
}

TEST_F(BenchMainTest, Filter_KeepsRowsWhoseNameOrPeerContainsIt) {
  EXPECT_EQ(Run({"--filter", "slow", "--json", file_.c_str()}), 0);
  ASSERT_EQ(Rows().size(), 1);
  EXPECT_EQ(Rows()[0]["name"], "slow");
  EXPECT_EQ(Run({"--filter", "oth", "--json", file_.c_str()}), 0);
  EXPECT_EQ(Rows().size(), 2);
}

TEST_F(BenchMainTest, FilterThatLeavesNoRow_HasAStatusOfItsOwnAndWritesNothing) {
  EXPECT_EQ(Run({"--filter", "nothing", "--json", file_.c_str()}), 3);
  EXPECT_EQ(error_, "bench_area: no row has 'nothing' in it\n");
  EXPECT_EQ(out_, "");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(BenchMainTest, FilterOfGoogleBenchmark_MaySelectOneSide) {
  EXPECT_EQ(Run({"--benchmark_filter=fast.*/ours", "--json", file_.c_str()}), 0);
  ASSERT_EQ(Rows().size(), 1);
  EXPECT_EQ(Rows()[0]["value"], 1);
  EXPECT_EQ(Rows()[0]["peer_value"], nullptr);
  EXPECT_EQ(Run({"--benchmark_filter=nothing"}), 3);
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
  EXPECT_EQ(Run({"--json"}), 2);
  EXPECT_EQ(error_, "bench_area: --json needs a value\n");
  EXPECT_EQ(Run({"--filter", ""}), 2);
  EXPECT_EQ(error_, "bench_area: --filter needs a value\n");
  EXPECT_EQ(Run({"--json", "/dev/null/rows.json"}), 2);
  EXPECT_EQ(error_, "bench_area: cannot write /dev/null/rows.json\n");
  EXPECT_EQ(out_, "");
}

}  // namespace
}  // namespace stockade::bench
