#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "redis/support/redis_server.h"
#include "support/subprocess.h"
#include "support/temp_dir.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kProcesses = 4;

struct Row {
  int64_t expiries = 0;
  int64_t queries = 0;
  int64_t away = 0;
};

// The table's rows by their names.
std::map<std::string, Row> Table(const std::string& text) {
  static const std::regex form(R"((\S.*?)\s{2,}(\d+)\s+(\d+)\s+[\d.]+\s+(\d+))");
  std::map<std::string, Row> rows;
  std::istringstream in(text);
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (!std::regex_match(line, match, form)) continue;
    const auto number = [&](int group) { return static_cast<int64_t>(std::stoll(match[group])); };
    rows[match[1]] = {.expiries = number(2), .queries = number(3), .away = number(4)};
  }
  return rows;
}

TEST(FleetTest, Run_OneQueryPerExpiry_AndEachFaultAddsWhatIsStated) {
  STOCKADE_NEEDS_REDIS();
  const TempDir dir;
  const RunResult run = RunToEnd({"env", "TMPDIR=" + dir.path(), FLEET});
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "its files are left";
  std::map<std::string, Row> rows = Table(run.out);
  ASSERT_EQ(rows.size(), 8u);

  EXPECT_GT(rows["no cache"].queries, 100 * rows["no cache"].expiries);
  EXPECT_GT(rows["a cache in each process"].queries, rows["a cache in each process"].expiries);
  for (const char* faultless :
       {"fleet: the key expires", "fleet: the key is invalidated", "fleet: the key expires, as before"}) {
    EXPECT_EQ(rows[faultless].expiries, 4) << faultless;
    EXPECT_EQ(rows[faultless].queries, 4) << faultless;
    EXPECT_EQ(rows[faultless].away, 0) << faultless;
  }
  const Row lapsed = rows["fleet: the loader is killed, its lease lapses"];
  EXPECT_EQ(lapsed.queries, lapsed.expiries + 1);
  EXPECT_EQ(lapsed.away, 0);
  const Row away = rows["fleet: Redis is away, each process loads"];
  EXPECT_EQ(away.expiries, 2);
  EXPECT_EQ(away.queries, away.away);
  EXPECT_LE(away.queries, kProcesses * away.expiries);
  EXPECT_GT(away.queries, away.expiries);
  // A process that has not noticed yet that Redis is back loads once more.
  const Row back = rows["fleet: Redis is back and empty, a new reign"];
  EXPECT_EQ(back.expiries, 1);
  EXPECT_EQ(back.queries - back.away, 1);
  EXPECT_LE(back.away, kProcesses);

  std::ostringstream readme;
  readme << std::ifstream(FLEET_README).rdbuf();
  const std::map<std::string, Row> shown = Table(readme.str());
  ASSERT_EQ(shown.size(), rows.size());
  for (const auto& [name, row] : rows) {
    ASSERT_TRUE(shown.contains(name)) << name;
    EXPECT_EQ(shown.at(name).expiries, row.expiries) << name;
  }
}

TEST(FleetTest, NoServerInPath_IsTold) {
  const TempDir dir;
  const RunResult run = RunToEnd({"env", "PATH=" + dir.path(), "TMPDIR=" + dir.path(), FLEET});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("fleet: redis-server does not start: is it installed?"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(FleetTest, AnyOption_IsRefused) {
  const RunResult run = RunToEnd({FLEET, "--processes=5"});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "fleet: unknown option '--processes=5'; it has no options\n");
}

}  // namespace
}  // namespace stockade::testing
