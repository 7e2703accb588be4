#include <gtest/gtest.h>

#include "zookeeper/support/raw_zookeeper.h"
#include "zookeeper/support/zookeeper_server.h"

namespace stockade::testing {
namespace {

TEST(ZooKeeperServerFixtureTest, Server_AllThatCanHappenToIt_IsSo) {
  STOCKADE_NEEDS_ZOOKEEPER();
  ZooKeeperServer server;
  EXPECT_EQ(server.Mode(), "standalone");
  {
    RawZooKeeper client(server.port());
    EXPECT_TRUE(client.Create("/a") && client.Create("/a/b") && client.Create("/a/b/c") && client.Create("/d"));
    EXPECT_EQ(client.Leaves("/").size(), 2u);
  }
  server.Kill();
  EXPECT_FALSE(server.running());
  EXPECT_FALSE(RawZooKeeper(server.port()).connected());
  server.Restart();
  EXPECT_TRUE(RawZooKeeper(server.port()).Exists("/a/b/c")) << "data outlive it";
  server.Pause();
  EXPECT_EQ(server.Mode(), "");
  server.Resume();
  EXPECT_EQ(server.Mode(), "standalone");
  server.Wipe();
  RawZooKeeper client(server.port());
  EXPECT_EQ(client.Children("/"), std::vector<std::string>{"zookeeper"});
  EXPECT_FALSE(client.Children("/a").has_value());
}

}  // namespace
}  // namespace stockade::testing
