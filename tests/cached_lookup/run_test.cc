#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/subprocess.h"

namespace stockade::testing {
namespace {

struct Line {
  int64_t queries;
  int64_t errors;
};

// The table's lines by their text, and in their order.
struct Table {
  explicit Table(const std::string& text) {
    static const std::regex line(R"((?:\d)?\s+(\S.*?)\s{2,}(\d+)\s+[\d.]+ ms\s+(\d+))");
    std::istringstream in(text);
    std::smatch match;
    for (std::string one; std::getline(in, one);) {
      if (!std::regex_match(one, match, line)) continue;
      order.push_back(match[1]);
      lines[match[1]] = {std::stoll(match[2]), std::stoll(match[3])};
    }
  }
  Line Of(const std::string& what) const {
    const auto found = lines.find(what);
    return found == lines.end() ? Line{-1, -1} : found->second;
  }

  std::vector<std::string> order;
  std::map<std::string, Line> lines;
};

std::string ReadAll(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST(CachedLookupTest, EachStep_CostsWhatItIsThereToSave) {
  const RunResult run = RunToEnd({CACHED_LOOKUP});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
  const Table table(run.out);
  EXPECT_EQ(table.Of("no cache").queries, 8 * 3 * 40);
  EXPECT_GT(table.Of("a map, a mutex, a TTL").queries, table.Of("LoadingCache").queries);
  EXPECT_LE(table.Of("a map, a mutex, a TTL").queries, 80);
  EXPECT_EQ(table.Of("LoadingCache").queries, 10);
  EXPECT_EQ(table.Of("+ refresh_ahead, ttl_jitter").queries, 13);  // 40 rounds, one every 3 of which finds it due.
  EXPECT_GE(table.Of("an id that does not exist").queries, 3 * 40);
  EXPECT_EQ(table.Of("+ negative_ttl").queries, 10);
  EXPECT_GT(table.Of("the database is down for 3 TTLs").errors, 0);
  EXPECT_GE(table.Of("the database is down for 3 TTLs").queries, 30);
  EXPECT_EQ(table.Of("+ stale_if_error").queries, 20);  // One a round from when a refresh was due.
  EXPECT_EQ(table.Of("a page of 20 cold products").queries, 20);
  EXPECT_EQ(table.Of("+ GetAll, a batch loader").queries, 1);
  EXPECT_EQ(table.Of("5 prices change").queries, 0);
  EXPECT_EQ(table.Of("5 prices change").errors, 40);
  EXPECT_EQ(table.Of("+ InvalidateTag").queries, 5);
  EXPECT_EQ(table.Of("or UpdateThrough").queries, 5);
  for (const auto& [what, line] : table.lines) {
    if (what == "the database is down for 3 TTLs" || what == "5 prices change") continue;
    EXPECT_EQ(line.errors, 0) << what;
  }
}

TEST(CachedLookupTest, Readme_ShowsThisTable) {
  const Table shown(ReadAll(CACHED_LOOKUP_README));
  const Table printed(RunToEnd({CACHED_LOOKUP}).out);
  EXPECT_EQ(shown.order.size(), 13U);
  EXPECT_EQ(shown.order, printed.order);
  for (const auto& [what, line] : printed.lines) {
    EXPECT_EQ(shown.Of(what).errors, line.errors) << what;
  }
}

TEST(CachedLookupTest, Arguments_AreRefused) {
  const RunResult run = RunToEnd({CACHED_LOOKUP, "--help"});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "usage: cached_lookup\n");
}

}  // namespace
}  // namespace stockade::testing
