#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/scale.h"
#include "support/subprocess.h"
#ifdef HAS_REDIS
#include "redis/support/redis_server.h"
#endif
#ifdef HAS_ZOOKEEPER
#include "zookeeper/support/zookeeper_server.h"
#endif
#ifdef HAS_MYSQL
#include "mysql/support/mariadb_server.h"
#endif

namespace stockade::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

RunResult Grab(std::vector<std::string> args) {
  args.insert(args.begin(), GRAB_ORDER);
  return RunToEnd(args);
}

std::string LastLineFor(int64_t orders) {
  const std::string number = std::to_string(orders);
  return number + " of " + number + " orders have exactly one driver\n";
}

// Odd drivers are with service A, even ones with B.
void ExpectOneDriverEach(const std::string& text, int64_t orders) {
  static const std::regex form(R"(order (\d+): driver (?:[13579] by service A|(?:[2468]|10) by service B))");
  std::istringstream in(text);
  std::smatch match;
  std::string line;
  for (int64_t order = 1; order <= orders; ++order) {
    ASSERT_TRUE(std::getline(in, line));
    ASSERT_TRUE(std::regex_match(line, match, form)) << line;
    EXPECT_EQ(match[1], std::to_string(order));
  }
  EXPECT_THAT(text, EndsWith("\n" + LastLineFor(orders)));
}

void ExpectOneDriverEachOn(const std::string& locks) {
  const int64_t orders = Scaled(50, 2000);
  const RunResult run = Grab({"--locks", locks, "--orders", std::to_string(orders)});
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err, ::testing::MatchesRegex("(stockade INFO: ZooKeeper: [^\n]*\n)*"));  // Its sessions.
  ExpectOneDriverEach(run.out, orders);
}

TEST(GrabOrderTest, Local_EachOrderHasOneDriver) { ExpectOneDriverEachOn("local:"); }

#ifdef HAS_REDIS
TEST(GrabOrderTest, Redis_EachOrderHasOneDriver) {
  STOCKADE_NEEDS_REDIS();
  const RedisServer server;
  ExpectOneDriverEachOn(server.url());
}
#endif

#ifdef HAS_ZOOKEEPER
TEST(GrabOrderTest, ZooKeeper_EachOrderHasOneDriver) {
  STOCKADE_NEEDS_ZOOKEEPER();
  const ZooKeeperServer server;
  ExpectOneDriverEachOn(server.url());
}
#endif

#ifdef HAS_MYSQL
TEST(GrabOrderTest, MySql_EachOrderHasOneDriver) {
  STOCKADE_NEEDS_MARIADB();
  const MariaDbServer server;
  ExpectOneDriverEachOn(server.url() + "?create_schema=1");
}
#endif

TEST(GrabOrderTest, WithoutOptions_PrintsWhatTheReadmeShows) {
  const RunResult run = Grab({});
  EXPECT_EQ(run.status, 0) << run.err;
  ExpectOneDriverEach(run.out, 5);
  std::ostringstream readme;
  readme << std::ifstream(GRAB_ORDER_README).rdbuf();
  const size_t shown = readme.str().find("order 1: ");
  ASSERT_NE(shown, std::string::npos);
  const std::string rest = readme.str().substr(shown);
  ExpectOneDriverEach(rest.substr(0, rest.find("```")), 5);
}

// One line, which has `what`, and no output.
void ExpectRefused(const std::vector<std::string>& args, const std::string& what) {
  const RunResult run = Grab(args);
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, AllOf(StartsWith("grab_order: "), HasSubstr(what)));
  EXPECT_EQ(std::ranges::count(run.err, '\n'), 1);
}

TEST(GrabOrderTest, BadInput_IsRefusedInOneLine) {
  for (const char* text : {"0", "100001", "-5", "20x", "", " 20", "99999999999999999999"}) {
    ExpectRefused({"--orders", text}, "--orders takes a whole number from 1 to 100000, not '" + std::string(text));
  }
  ExpectRefused({"--orders"}, "--orders takes a value");
  ExpectRefused({"--drivers", "3"}, "unknown option '--drivers'");
  ExpectRefused({"--locks", "etcd://127.0.0.1"}, "not with etcd://");
  ExpectRefused({"--locks", ""}, "begins with one of");
}

TEST(GrabOrderTest, Help_ListsTheEnginesUrls) {
  const RunResult run = Grab({"--help"});
  EXPECT_EQ(run.status, 0);
  for (const char* what : {"--orders", "--locks", "local:", "redis://", "zookeeper://", "mysql://"}) {
    EXPECT_THAT(run.out, HasSubstr(what));
  }
}

}  // namespace
}  // namespace stockade::testing
