#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "redis/support/redis_cluster.h"
#include "redis/support/redis_server.h"
#include "support/scale.h"
#include "support/subprocess.h"
#include "support/temp_dir.h"
#ifdef HAS_ZOOKEEPER
#include "zookeeper/support/zookeeper_server.h"
#endif
#ifdef HAS_MYSQL
#include "mysql/support/mariadb_server.h"
#endif

namespace stockade::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

RunResult RunOffice(std::vector<std::string> args) {
  args.insert(args.begin(), TICKET_OFFICE);
  return RunToEnd(args);
}

struct Row {
  int64_t sold, sold_again, never_sold, deleted, wrong;

  friend bool operator==(const Row&, const Row&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.sold << ' ' << row.sold_again << ' ' << row.never_sold << ' ' << row.deleted << ' ' << row.wrong;
  }
};

// The table's rows by their letters.
std::map<std::string, Row> Table(const std::string& text) {
  static const std::regex form(R"(([a-e])  \S.*?\s{2,}(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+))");
  std::map<std::string, Row> rows;
  std::istringstream in(text);
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (!std::regex_match(line, match, form)) continue;
    const auto number = [&](int group) { return static_cast<int64_t>(std::stoll(match[group])); };
    rows[match[1]] = {number(2), number(3), number(4), number(5), number(6)};
  }
  return rows;
}

void ExpectEachAsItShouldBe(const RunResult& run, int64_t tickets, int64_t sellers) {
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 0);
  // The seller that is paused loses its lock; on a slow machine others may, too. No other line is there.
  EXPECT_THAT(run.err, HasSubstr("was lost: its time was over"));
  static const std::regex lost(
      R"(stockade WARNING: lock service 'ticket_office': lock '[^']*' \(\w+\) was lost: [^\n]*\n)");
  EXPECT_EQ(std::regex_replace(run.err, lost, ""), "");
  const std::map<std::string, Row> rows = Table(run.out);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows.at("a"), (Row{tickets * sellers, tickets * (sellers - 1), 0, 0, tickets * (sellers - 1)}));
  EXPECT_EQ(rows.at("b"), (Row{0, 0, tickets, 0, tickets}));
  // A lock of a seller that is not paused may expire as well, on a slow machine.
  EXPECT_GE(rows.at("c").sold_again, tickets);
  EXPECT_GE(rows.at("d").sold_again, 1);
  EXPECT_GE(rows.at("d").deleted, 1);
  EXPECT_EQ(rows.at("e"), (Row{tickets, 0, 0, 0, 0}));
  EXPECT_THAT(run.out, HasSubstr("others give up, "));
  EXPECT_THAT(run.out, HasSubstr("\ne: "));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("is refused (0)")));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("was lost (0)")));
}

TEST(TicketOfficeTest, OwnServer_AllButStockade_GoWrong) {
  STOCKADE_NEEDS_REDIS();
  const TempDir dir;
  ExpectEachAsItShouldBe(RunToEnd({"env", "TMPDIR=" + dir.path(), TICKET_OFFICE}), 20, 4);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "its server's directory is left";
}

TEST(TicketOfficeTest, OtherTicketsAndSellers_AllButStockade_GoWrong) {
  STOCKADE_NEEDS_REDIS();
  ExpectEachAsItShouldBe(RunOffice({"--tickets", "2", "--sellers=3"}), 2, 3);
}

TEST(TicketOfficeTest, ServerOfTheUser_IsLeftAsItWas) {
  STOCKADE_NEEDS_REDIS();
  const RedisServer server;
  ASSERT_EQ(server.Call({"SET", "left", "7"}), "OK");
  ExpectEachAsItShouldBe(RunOffice({"--redis", server.url(), "--tickets", "5"}), 5, 4);
  EXPECT_EQ(server.Call({"GET", "left"}), "7");
  // The tickets and the locks are gone; what Stockade keeps beside a lock, to remember its token, goes by itself.
  for (const RawReply& key : server.Call({"KEYS", "*"}).items) {
    if (key == "left") continue;
    EXPECT_NE(server.Call({"PTTL", key.text}), "-1") << key;
  }
}

TEST(TicketOfficeTest, Cluster_AllButStockade_GoWrong) {
  STOCKADE_NEEDS_REDIS();
  if (kSanitized) GTEST_SKIP() << "a server alone is enough under a sanitizer";
  const RedisCluster cluster;
  ExpectEachAsItShouldBe(RunOffice({"--redis", cluster.url(), "--tickets", "5"}), 5, 4);
}

// The tickets in Redis, the locks of (e) there.
void ExpectStockadeAsItShouldBeOn(const std::string& locks) {
  // A server that has just started may be too busy to be connected to in time.
  RunResult run;
  for (int attempt = 0; attempt < 20; ++attempt) {
    run = RunOffice({"--locks", locks, "--scenario", "e"});
    if (run.status != 2) break;  // "something that could not be used": here only a server that is late
  }
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 0);
  // Each seller tells its session, and the paused one may warn that its session is over.
  EXPECT_THAT(run.err, ::testing::MatchesRegex("(stockade (INFO: ZooKeeper|WARNING): [^\n]*\n)*"));
  const std::map<std::string, Row> rows = Table(run.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.at("e"), (Row{20, 0, 0, 0, 0}));
  // A renewal that comes too late costs another seller its lock as well.
  EXPECT_THAT(run.out,
              AllOf(ContainsRegex(R"(is refused \([1-9][0-9]*\))"), ContainsRegex(R"(was lost \([1-9][0-9]*\))")));
}

TEST(TicketOfficeTest, LocksInAnotherRedis_SellEachOnce) {
  STOCKADE_NEEDS_REDIS();
  const RedisServer server;
  ExpectStockadeAsItShouldBeOn(server.url());
  EXPECT_NE(server.Call({"DBSIZE"}), "0") << "no token is remembered, so no lock was there";
}

#ifdef HAS_ZOOKEEPER
TEST(TicketOfficeTest, LocksInZooKeeper_SellEachOnce) {
  STOCKADE_NEEDS_REDIS();
  STOCKADE_NEEDS_ZOOKEEPER();
  const ZooKeeperServer server;
  ExpectStockadeAsItShouldBeOn(server.url());
}
#endif

#ifdef HAS_MYSQL
TEST(TicketOfficeTest, LocksInMySql_SellEachOnce) {
  STOCKADE_NEEDS_REDIS();
  STOCKADE_NEEDS_MARIADB();
  const MariaDbServer server;
  ExpectStockadeAsItShouldBeOn(server.url() + "?create_schema=1");
}
#endif

TEST(TicketOfficeTest, OneScenario_IsRunAlone) {
  STOCKADE_NEEDS_REDIS();
  const RunResult run = RunOffice({"--scenario", "a", "--tickets", "3"});
  EXPECT_EQ(run.status, 0) << run.err;
  const std::map<std::string, Row> rows = Table(run.out);
  ASSERT_EQ(rows.size(), 1u) << run.out;
  EXPECT_EQ(rows.at("a"), (Row{12, 9, 0, 0, 9}));
}

TEST(TicketOfficeTest, Readme_ShowsThisTable) {
  STOCKADE_NEEDS_REDIS();
  std::ostringstream readme;
  readme << std::ifstream(TICKET_OFFICE_README).rdbuf();
  const std::map<std::string, Row> shown = Table(readme.str());
  ASSERT_EQ(shown.size(), 5u);
  // The others have a part that may be left to luck.
  for (const char* letter : {"a", "b", "e"}) {
    const RunResult run = RunOffice({"--scenario", letter});
    const std::map<std::string, Row> printed = Table(run.out);
    ASSERT_EQ(printed.size(), 1u) << run.out << run.err;
    EXPECT_EQ(printed.at(letter), shown.at(letter)) << letter;
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) EXPECT_THAT(readme.str(), HasSubstr(line));
  }
}

// One line, which has `what`, and no output.
void ExpectRefused(const RunResult& run, const std::string& what) {
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, AllOf(StartsWith("ticket_office: "), HasSubstr(what)));
  EXPECT_EQ(std::ranges::count(run.err, '\n'), 1);
}

void ExpectRefused(const std::vector<std::string>& args, const std::string& what) {
  ExpectRefused(RunOffice(args), what);
}

TEST(TicketOfficeOptionsTest, Numbers_OutOfRangeOrNone_AreRefused) {
  for (const char* text : {"1", "1001", "-5", "20x", "", " 20", "99999999999999999999"}) {
    ExpectRefused({"--tickets", text}, "--tickets takes a whole number from 2 to 1000, not '" + std::string(text));
  }
  ExpectRefused({"--sellers=2"}, "--sellers takes a whole number from 3 to 32, not '2'");
  ExpectRefused({"--sellers", "33"}, "--sellers takes a whole number from 3 to 32, not '33'");
}

TEST(TicketOfficeOptionsTest, Scenario_NoneOfFive_IsRefused) {
  for (const char* text : {"f", "ab", "", "A"}) {
    ExpectRefused({"--scenario", text}, "--scenario takes one letter from a to e, not '" + std::string(text));
  }
}

TEST(TicketOfficeOptionsTest, UnknownOrWithoutValue_IsRefused) {
  ExpectRefused({"--lock", "x"}, "unknown option '--lock'");
  ExpectRefused({"sell"}, "unknown option 'sell'");
  ExpectRefused({"--help=yes"}, "unknown option '--help=yes'");
  ExpectRefused({"--tickets"}, "--tickets takes a value");
  ExpectRefused({"--redis", ""}, "--redis takes a URL");
  ExpectRefused({"--locks", ""}, "--locks takes a URL");
}

TEST(TicketOfficeOptionsTest, Locks_NoEngineForProcesses_AreRefused) {
  ExpectRefused({"--locks", "local:"}, "local to one process");
  ExpectRefused({"--locks", "etcd://127.0.0.1"}, "not with etcd://");
  ExpectRefused({"--locks", "unix:///no/such/socket"}, "/no/such/socket");
}

TEST(TicketOfficeOptionsTest, Redis_NoUrlOrNobodyThere_IsRefused) {
  ExpectRefused({"--redis", "http://127.0.0.1"}, "http");
  ExpectRefused({"--redis", "unix:///no/such/socket"}, "/no/such/socket");
}

TEST(TicketOfficeOptionsTest, NoServerInPath_IsTold) {
  const TempDir dir;
  ExpectRefused(RunToEnd({"env", "PATH=" + dir.path(), TICKET_OFFICE}),
                "redis-server does not start: is it installed?");
}

TEST(TicketOfficeOptionsTest, Help_ListsTheOptions) {
  const RunResult run = RunOffice({"--help"});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
  for (const char* option :
       {"--redis", "--locks", "zookeeper://", "mysql://", "--tickets", "--sellers", "--scenario"}) {
    EXPECT_THAT(run.out, HasSubstr(option));
  }
}

}  // namespace
}  // namespace stockade::testing
