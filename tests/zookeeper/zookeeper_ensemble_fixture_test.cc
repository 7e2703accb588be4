#include <gtest/gtest.h>

#include "support/await.h"
#include "zookeeper/support/raw_zookeeper.h"
#include "zookeeper/support/zookeeper_ensemble.h"

namespace stockade::testing {
namespace {

TEST(ZooKeeperEnsembleFixtureTest, Leader_KilledPausedOrCutOff_AnotherOneServesAndItComesBack) {
  STOCKADE_NEEDS_ZOOKEEPER();
  ZooKeeperEnsemble servers;
  const auto expect_replaced = [&](size_t leader, const char* by) {
    const size_t next = servers.AwaitLeaderOtherThan(leader);
    EXPECT_TRUE(RawZooKeeper(servers.server(next).port()).Create(std::string("/") + by)) << by;
  };

  size_t leader = servers.LeaderIndex();
  servers.CutOff(leader);
  expect_replaced(leader, "cut off");
  Await("the old leader to notice", [&] { return servers.server(leader).Mode().empty(); });
  EXPECT_FALSE(RawZooKeeper(servers.clients(leader).port()).connected());
  servers.Repair();
  EXPECT_NE(servers.LeaderIndex(), leader);

  leader = servers.LeaderIndex();
  servers.server(leader).Kill();
  expect_replaced(leader, "killed");
  servers.Repair();

  leader = servers.LeaderIndex();
  servers.server(leader).Pause();
  expect_replaced(leader, "paused");
  servers.Repair();

  servers.RestartAll();
  RawZooKeeper client(servers.clients(servers.FollowerIndex()).port());
  client.Sync("/");
  for (const char* const by : {"/cut off", "/killed", "/paused"}) EXPECT_TRUE(client.Exists(by)) << by;
}

TEST(ZooKeeperEnsembleFixtureTest, Follower_CutOff_ServesNobodyAndTheOthersGoOn) {
  STOCKADE_NEEDS_ZOOKEEPER();
  ZooKeeperEnsemble servers;
  const size_t leader = servers.LeaderIndex();
  const size_t follower = servers.FollowerIndex();
  servers.CutOff(follower);
  Await("the follower to notice", [&] { return servers.server(follower).Mode().empty(); });
  EXPECT_EQ(servers.LeaderIndex(), leader);
  EXPECT_TRUE(RawZooKeeper(servers.server(leader).port()).Create("/a"));
  servers.Repair();
  servers.Wipe();
  EXPECT_TRUE(RawZooKeeper(servers.server(leader).port()).Leaves("/").empty());
}

}  // namespace
}  // namespace stockade::testing
