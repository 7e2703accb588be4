#include <gtest/gtest.h>

#include <string>

#include "redis/support/sentinel_set.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

class SentinelSetFixtureTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

// The server's own word, and each Sentinel's.
void ExpectMaster(SentinelSet& set, const RedisServer& master) {
  EXPECT_EQ(master.Info("role"), "master");
  for (size_t i = 0; i < 3; ++i) {
    if (!set.sentinel(i).running()) continue;
    EXPECT_EQ(set.sentinel(i).Call({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"}).items[1],
              std::to_string(master.port()));
  }
}

TEST_F(SentinelSetFixtureTest, Start_Returned_EachSentinelCanCallAFailover) {
  SentinelSet set;
  ExpectMaster(set, set.server(0));
  EXPECT_EQ(set.server(0).Info("connected_slaves"), "2");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(set.sentinel(i).Call({"SENTINEL", "CKQUORUM", "mymaster"}).text.substr(0, 20), "OK 3 usable Sentinel");
    EXPECT_NE(set.url().find("127.0.0.1:" + std::to_string(set.sentinel(i).port())), std::string::npos) << set.url();
  }
}

TEST_F(SentinelSetFixtureTest, Failover_Asked_TheOldMasterIsAReplicaOfTheNew) {
  SentinelSet set;
  set.Failover();
  EXPECT_NE(set.master_port(), set.server(0).port());
  ExpectMaster(set, set.master());
  EXPECT_EQ(set.server(0).Info("role"), "slave");
  EXPECT_EQ(set.server(0).Info("master_port"), std::to_string(set.master_port()));
}

TEST_F(SentinelSetFixtureTest, Failover_Twice_MovesTwice) {
  SentinelSet set;
  set.Failover();
  const uint16_t second = set.master_port();
  set.Failover();
  EXPECT_NE(set.master_port(), second);
  ExpectMaster(set, set.master());
}

TEST_F(SentinelSetFixtureTest, KillMaster_AndRestart_ItComesBackAsAReplica) {
  SentinelSet set;
  set.KillMaster();
  EXPECT_FALSE(set.server(0).running());
  ExpectMaster(set, set.master());
  set.server(0).Restart();
  set.AwaitSettled();
  EXPECT_EQ(set.server(0).Info("role"), "slave");
}

TEST_F(SentinelSetFixtureTest, Sentinel_Killed_TheOthersStillFailOver) {
  SentinelSet set;
  set.sentinel(0).Kill();
  set.KillMaster();
  ExpectMaster(set, set.master());
}

TEST_F(SentinelSetFixtureTest, RestartAll_AfterAFailover_KeepsTheMaster) {
  SentinelSet set;
  set.Failover();
  const uint16_t master = set.master_port();
  const std::string before = set.master().Info("run_id");
  set.RestartAll();
  EXPECT_EQ(set.master_port(), master);
  ExpectMaster(set, set.master());
  EXPECT_NE(set.master().Info("run_id"), before);
}

}  // namespace
}  // namespace stockade::testing
