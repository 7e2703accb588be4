#include <gtest/gtest.h>

#include <string>

#include "redis/support/redis_cluster.h"
#include "stockade/base/strings.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using ::stockade::base_internal::Concat;

class RedisClusterFixtureTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

// What redis-cli finds wrong with it; empty: nothing.
std::string Faults(RedisCluster& cluster) {
  const RunResult check = RunToEnd({"redis-cli", "--cluster", "check", Concat("127.0.0.1:", cluster.node(0).port())});
  return check.status == 0 ? "" : check.out + check.err;
}

TEST_F(RedisClusterFixtureTest, Start_Returned_ServesAllSlots) {
  RedisCluster cluster;
  EXPECT_EQ(cluster.size(), 3u);
  EXPECT_EQ(Faults(cluster), "");
  EXPECT_EQ(cluster.OwnerOf(0), 0u);
  EXPECT_EQ(cluster.OwnerOf(16383), 2u);
  EXPECT_EQ(cluster.SlotOf("foo"), 12182);
  EXPECT_EQ(cluster.NodeOf("foo").Call({"SET", "foo", "v"}), "OK");
  EXPECT_EQ(cluster.node(0).Call({"GET", "foo"}), Concat("MOVED 12182 127.0.0.1:", cluster.node(2).port()));
}

TEST_F(RedisClusterFixtureTest, MoveSlot_WithKeys_TheNewOwnerHasThem) {
  RedisCluster cluster;
  for (int i = 0; i < 150; ++i) cluster.node(2).Call({"SET", Concat("{foo}", i), "v"});
  cluster.MoveSlot(12182, 2, 0);
  EXPECT_EQ(cluster.OwnerOf(12182), 0u);
  EXPECT_EQ(cluster.node(0).Call({"CLUSTER", "COUNTKEYSINSLOT", "12182"}), "150");
  EXPECT_EQ(cluster.node(1).Call({"GET", "{foo}1"}), Concat("MOVED 12182 127.0.0.1:", cluster.node(0).port()));
  EXPECT_EQ(Faults(cluster), "");
}

TEST_F(RedisClusterFixtureTest, BeginMove_HalfMoved_AnswersAskAndTryagain) {
  RedisCluster cluster;
  cluster.node(2).Call({"MSET", "{foo}1", "a", "{foo}2", "b"});
  cluster.BeginMove(12182, 2, 0);
  cluster.MigrateKey("{foo}1", 2, 0);
  EXPECT_EQ(cluster.node(2).Call({"GET", "{foo}1"}), Concat("ASK 12182 127.0.0.1:", cluster.node(0).port()));
  EXPECT_EQ(cluster.node(2).Call({"GET", "{foo}2"}), "b");
  EXPECT_EQ(cluster.node(2).Call({"MGET", "{foo}1", "{foo}2"}).text.substr(0, 8), "TRYAGAIN");
  RawRedis asking(cluster.node(0).port());
  EXPECT_EQ(asking.Call({"ASKING"}), "OK");
  EXPECT_EQ(asking.Call({"GET", "{foo}1"}), "a");
  cluster.FinishMove(12182, 2, 0);
  EXPECT_EQ(cluster.node(0).Call({"MGET", "{foo}1", "{foo}2"}).items.size(), 2u);
  EXPECT_EQ(Faults(cluster), "");
}

TEST_F(RedisClusterFixtureTest, Kill_OfAMasterWithReplica_TheReplicaTakesOver) {
  RedisCluster cluster({.replicas = true});
  EXPECT_EQ(Faults(cluster), "");
  cluster.node(1).Kill();
  Await("the replica to take over", [&] { return cluster.node(4).Info("role") == "master"; });
  cluster.AwaitSettled();
  EXPECT_EQ(cluster.OwnerOf(8000), 4u);
  cluster.node(1).Restart();
  Await("the old master to follow", [&] { return cluster.node(1).Info("role") == "slave"; });
}

TEST_F(RedisClusterFixtureTest, Kill_WithoutFullCoverage_TheOthersStillServe) {
  RedisCluster cluster({.full_coverage = false});
  cluster.node(0).Kill();
  Await("the others to notice", [&] {
    // By itself at first, then agreed with the other, for which their rumours must meet: either will do.
    const std::string info = cluster.node(1).Call({"CLUSTER", "INFO"}).text;
    return InfoField(info, "cluster_slots_pfail") != "0" || InfoField(info, "cluster_slots_fail") != "0";
  });
  EXPECT_EQ(cluster.node(2).Call({"SET", "foo", "v"}), "OK");
}

TEST_F(RedisClusterFixtureTest, RestartAll_Appendonly_KeepsSlotsAndData) {
  RedisCluster cluster({.server = {.appendonly = true}});
  cluster.MoveSlot(12182, 2, 0);
  EXPECT_EQ(cluster.node(0).Call({"SET", "foo", "v"}), "OK");
  const std::string before = cluster.node(0).Info("run_id");
  cluster.RestartAll();
  EXPECT_NE(cluster.node(0).Info("run_id"), before);
  EXPECT_EQ(cluster.NodeOf("foo").Call({"GET", "foo"}), "v");
  EXPECT_EQ(cluster.OwnerOf(12182), 0u);
}

}  // namespace
}  // namespace stockade::testing
