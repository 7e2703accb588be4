#include "zookeeper_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stockade::locks_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ParseZooKeeperUrlTest, HostAlone_HasTheDefaults) {
  const absl::StatusOr<ZooKeeperUrl> url = ParseZooKeeperUrl("zookeeper://zk1");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_THAT(url->servers, ElementsAre("zk1:2181"));
  EXPECT_EQ(url->root, "/stockade/locks");
  EXPECT_EQ(url->user, "");
  EXPECT_EQ(url->tick, std::nullopt);
  EXPECT_EQ(url->session_timeout, std::nullopt);
}

TEST(ParseZooKeeperUrlTest, SchemeInAnyCase_IsTaken) { EXPECT_TRUE(ParseZooKeeperUrl("ZooKeeper://zk1").ok()); }

TEST(ParseZooKeeperUrlTest, EveryPart_IsReadAndDecoded) {
  const absl::StatusOr<ZooKeeperUrl> url = ParseZooKeeperUrl(
      "zookeeper://us%2Fer:p%40ss:word@zk2:2182,zk1:2181,[::1]:99,zk1/shop/locks%2d/"
      "?tick_ms=500&session_timeout_ms=9000");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_THAT(url->servers, ElementsAre("::1:99", "zk1:2181", "zk2:2182"));
  EXPECT_EQ(url->root, "/shop/locks-");
  EXPECT_EQ(url->user, "us/er");
  EXPECT_EQ(url->password, "p@ss:word");
  EXPECT_EQ(url->tick, absl::Milliseconds(500));
  EXPECT_EQ(url->session_timeout, absl::Seconds(9));
}

TEST(ParseZooKeeperUrlTest, Malformed_SaysWhatAndNotThePassword) {
  const std::pair<const char*, const char*> cases[] = {
      {"redis://secret@zk1", "zookeeper://"},
      {"zookeepers://user:secret@zk1", "zookeeper://"},
      {"zookeeper://user:secret@zk1?tls=verify", "'tls' is not one of tick_ms, session_timeout_ms"},
      {"zookeeper://", "host"},
      {"zookeeper://zk1,", "host"},
      {"zookeeper://zk1:0", "port 0"},
      {"zookeeper://zk1:70000", "70000"},
      {"zookeeper://secret@zk1", "user:password@"},
      {"zookeeper://:secret@zk1", "user:password@"},
      {"zookeeper://us%3Aer:secret@zk1", "':'"},
      {"zookeeper://user:se/cret@zk1", "'@'"},
      {"zookeeper://user:secret%zz@zk1", "%"},
      {"zookeeper://user:secret@zk1/a//b", "/a//b"},
      {"zookeeper://user:secret@zk1/a/../b", "/a/../b"},
      {"zookeeper://user:secret@zk1/a%20b", "/a b"},
      {"zookeeper://user:secret@zk1/zookeeper/x", "reserved for ZooKeeper"},
      {"zookeeper://user:secret@zk1?tick=1", "tick_ms"},
      {"zookeeper://user:secret@zk1?tick_ms=0", "tick_ms = '0'"},
      {"zookeeper://user:secret@zk1?session_timeout_ms=2s", "session_timeout_ms = '2s'"},
      {"zookeeper://user:secret@zk1?tick_ms=1&tick_ms=2", "twice"},
  };
  for (const auto& [text, says] : cases) {
    const absl::StatusOr<ZooKeeperUrl> url = ParseZooKeeperUrl(text);
    ASSERT_TRUE(absl::IsInvalidArgument(url.status())) << text << ": " << url.status();
    EXPECT_THAT(std::string(url.status().message()), HasSubstr(says)) << text;
    EXPECT_THAT(std::string(url.status().message()), Not(HasSubstr("secret"))) << text;
  }
}

}  // namespace
}  // namespace stockade::locks_internal
