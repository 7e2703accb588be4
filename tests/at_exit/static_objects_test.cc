// What a program destroys at exit, after main() has returned, works until its destructor has ended.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "inventory/fleet/fleet_test.h"
#include "mysql/support/mariadb_server.h"
#include "redis/support/redis_server.h"
#include "stockade/base/strings.h"
#include "stockade/locks/connect_lock_service.h"
#include "support/certificates.h"
#include "support/subprocess.h"
#include "zookeeper/support/zookeeper_server.h"

namespace stockade::testing {
namespace {

using ::stockade::base_internal::Concat;

// The order of destructors, and whether a thread is at work: see static_objects.cc.
class StaticObjectsTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  static void ExpectEnds(const std::string& kind, const std::string& url) {
    const auto [order, work] = GetParam();
    std::vector<std::string> command = {STATIC_OBJECTS, kind, url, order, work};
    if (std::string_view(work) == "detached") {
      // These objects are never destroyed, and a thread of theirs may have ended that nobody has joined yet.
      const char* const options = std::getenv("TSAN_OPTIONS");
      command.insert(command.begin(),
                     {"env", Concat("TSAN_OPTIONS=", options == nullptr ? "" : options, ":report_thread_leaks=0")});
    }
    const RunResult result = RunToEnd(command);
    EXPECT_EQ(result.status, 0) << kind << ": " << result.out << result.err;
    // What cannot be released any more is logged. ZooKeeper's sessions are, too.
    if (std::string_view(order) == "openssl") return;
    EXPECT_THAT(result.err, ::testing::MatchesRegex("(stockade INFO: ZooKeeper: [^\n]*\n)*")) << kind;
  }

  // The lease that the program still had when main() returned has been released, if it was destroyed.
  static void ExpectLocksEnd(const std::string& url) {
    ExpectEnds("locks", url);
    if (std::string_view(std::get<1>(GetParam())) == "detached") return;
    if (std::string_view(std::get<0>(GetParam())) == "openssl") return;
    const auto locks = ConnectLockService(url, {.metrics = nullptr});
    ASSERT_TRUE(locks.ok()) << locks.status();
    EXPECT_TRUE((*locks)->Acquire("kept").ok());
  }
};

TEST_P(StaticObjectsTest, LocalLocksAndInventory_DestroyedAtExit_EndInOrder) {
  ExpectEnds("locks", "local:");
  ExpectEnds("inventory", "");
}

TEST_P(StaticObjectsTest, RedisLocksAndCache_DestroyedAtExit_EndInOrder) {
  STOCKADE_NEEDS_REDIS();
  const RedisServer server;
  ExpectLocksEnd(server.url());
  ExpectEnds("cache", server.url());
}

TEST_P(StaticObjectsTest, RedlockLocks_DestroyedAtExit_EndInOrder) {
  STOCKADE_NEEDS_REDIS();
  const RedisServer one, two, three;
  ExpectLocksEnd(Concat("redlock:", one.url(), ",", two.url(), ",", three.url()));
}

TEST_P(StaticObjectsTest, ZooKeeperLocks_DestroyedAtExit_EndInOrder) {
  STOCKADE_NEEDS_ZOOKEEPER();
  const ZooKeeperServer server;
  ExpectLocksEnd(server.url());
}

TEST_P(StaticObjectsTest, MySqlLocksAndFleet_DestroyedAtExit_EndInOrder) {
  STOCKADE_NEEDS_MARIADB();
  const MariaDbServer server({.flags = FleetServerFlags()});
  ExpectLocksEnd(server.url() + "?create_schema=1");
  ExpectEnds("fleet", server.url());
}

// With TLS, whose library has a handler of its own for the end of the process.
class StaticTlsObjectsTest : public StaticObjectsTest {};

TEST_P(StaticTlsObjectsTest, RedisLocksAndCache_DestroyedAtExit_EndInOrder) {
  STOCKADE_NEEDS_REDIS();
  STOCKADE_NEEDS_OPENSSL();
  CertificateAuthority authority;
  const RedisServer server(RedisServerOptions{.tls = TlsOf(authority)});
  ExpectLocksEnd(server.url());
  ExpectEnds("cache", server.url());
}

TEST_P(StaticTlsObjectsTest, MySqlLocksAndFleet_DestroyedAtExit_EndInOrder) {
  STOCKADE_NEEDS_MARIADB();
  const MariaDbServer server({.tls = true, .flags = FleetServerFlags()});
  const std::string tls = "?tls=verify&tls_ca=" + server.ca_file();
  ExpectLocksEnd(server.url() + tls + "&create_schema=1");
  ExpectEnds("fleet", server.url() + tls);
}

INSTANTIATE_TEST_SUITE_P(Orders, StaticTlsObjectsTest,
                         ::testing::Combine(::testing::Values("before", "after", "openssl"),
                                            ::testing::Values("idle", "busy", "detached")),
                         [](const auto& info) {
                           return Concat(std::get<0>(info.param), "_", std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(Orders, StaticObjectsTest,
                         ::testing::Combine(::testing::Values("before", "after"),
                                            ::testing::Values("idle", "busy", "detached")),
                         [](const auto& info) {
                           return Concat(std::get<0>(info.param), "_", std::get<1>(info.param));
                         });

}  // namespace
}  // namespace stockade::testing
