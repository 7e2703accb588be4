#include "harness/options.h"

#include <gtest/gtest.h>

#include <vector>

namespace stockade::bench {
namespace {

absl::StatusOr<BenchOptions> Parse(const std::vector<const char*>& args) { return ParseBenchOptions(args); }

TEST(BenchOptionsTest, None_AreTheDefaults) {
  const auto options = Parse({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->json_file, "");
  EXPECT_EQ(options->filter, "");
  EXPECT_FALSE(options->quick);
  EXPECT_FALSE(options->list);
}

TEST(BenchOptionsTest, All_AreRead) {
  const auto options = Parse({"--json", "out.json", "--quick", "--filter", "alone", "--list"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->json_file, "out.json");
  EXPECT_EQ(options->filter, "alone");
  EXPECT_TRUE(options->quick);
  EXPECT_TRUE(options->list);
}

TEST(BenchOptionsTest, Unknown_IsRefusedByName) {
  EXPECT_EQ(Parse({"--fast"}).status().message(), "unknown option '--fast'; try --help");
  EXPECT_FALSE(Parse({"metrics"}).ok());
}

TEST(BenchOptionsTest, MissingValue_IsRefused) {
  EXPECT_EQ(Parse({"--json"}).status().message(), "--json needs a value");
  EXPECT_EQ(Parse({"--filter", ""}).status().message(), "--filter needs a value");
}

}  // namespace
}  // namespace stockade::bench
