#include <gtest/gtest.h>

#include <memory>

#include "redis/support/raw_redis.h"
#include "redis/support/redis_server.h"
#include "redis/support/sentinel_set.h"
#include "support/await.h"
#include "support/network.h"

namespace stockade::testing {
namespace {

class NetworkFixtureTest : public ::testing::Test {
 protected:
  static constexpr int kServer = 0, kClient = 1, kOther = 2;

  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    STOCKADE_NEEDS_NETWORK();
    network_ = std::make_unique<Network>(3);
    server_ = std::make_unique<RedisServer>(RedisServerOptions{.host = network_->host(kServer)});
  }
  std::unique_ptr<RawRedis> ClientOn(int host) const {
    const NetworkHost::Scope there = network_->host(host).Enter();
    return std::make_unique<RawRedis>(server_->port(), network_->host(kServer).address());
  }

  std::unique_ptr<Network> network_;
  std::unique_ptr<RedisServer> server_;
};

TEST_F(NetworkFixtureTest, NoFault_AllReachTheServerAtItsAddressOnly) {
  EXPECT_EQ(ClientOn(kClient)->Call({"PING"}), "PONG");
  EXPECT_EQ(ClientOn(kOther)->Call({"PING"}), "PONG");
  EXPECT_EQ(server_->Call({"PING"}), "PONG");
  EXPECT_TRUE(RawRedis(server_->port()).Call({"PING"}).lost()) << "127.0.0.1 is each host's own";
}

TEST_F(NetworkFixtureTest, Cut_OneWay_TheServerHearsWhatItCannotAnswer) {
  const auto client = ClientOn(kClient);
  const auto other = ClientOn(kOther);
  EXPECT_EQ(client->Call({"INCR", "n"}), "1");
  network_->Cut(kServer, kClient);
  client->Send(RawRedis::Encode({"INCR", "n"}));
  Await("the command", [&] { return server_->Call({"GET", "n"}).text == "2"; });
  EXPECT_EQ(other->Call({"INCR", "n"}), "3");
  network_->Heal();
  EXPECT_EQ(client->Read(), "2") << "the answer is sent again";
}

TEST_F(NetworkFixtureTest, Cut_TheOtherWay_TheServerHearsItOnceItIsHealed) {
  const auto client = ClientOn(kClient);
  EXPECT_EQ(client->Call({"INCR", "n"}), "1");
  network_->Cut(kClient, kServer);
  client->Send(RawRedis::Encode({"INCR", "n"}));
  EXPECT_EQ(ClientOn(kOther)->Call({"INCR", "n"}), "2");
  network_->Heal();
  EXPECT_EQ(client->Read(), "3");
}

TEST_F(NetworkFixtureTest, Reset_ConnectionsEndAndNewOnesAreRefused) {
  const auto client = ClientOn(kClient);
  EXPECT_EQ(client->Call({"PING"}), "PONG");
  network_->Reset(kClient, kServer);
  EXPECT_TRUE(client->Call({"PING"}).lost());
  EXPECT_TRUE(ClientOn(kClient)->Call({"PING"}).lost());
  EXPECT_EQ(ClientOn(kOther)->Call({"PING"}), "PONG");
  network_->Heal();
  EXPECT_EQ(ClientOn(kClient)->Call({"PING"}), "PONG");
}

TEST_F(NetworkFixtureTest, Split_OnlyThoseOnOneSideReachEachOther) {
  const auto client = ClientOn(kClient);
  EXPECT_EQ(client->Call({"INCR", "n"}), "1");
  network_->Split(1 << kClient);
  EXPECT_EQ(ClientOn(kOther)->Call({"INCR", "n"}), "2");
  client->Send(RawRedis::Encode({"INCR", "n"}));
  EXPECT_EQ(server_->Call({"GET", "n"}), "2");
  network_->Heal();
  EXPECT_EQ(client->Read(), "3");
}

TEST_F(NetworkFixtureTest, MasterIsCutOffFromAll_TheSentinelsPromoteAReplica) {
  SentinelSet set({.hosts = {network_->host(0), network_->host(1), network_->host(2)}});
  const uint16_t first = set.master_port();
  EXPECT_EQ(first, set.server(0).port());
  network_->Split(1);
  Await("another master", [&] {
    return set.sentinel(1).Call({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"}).items.at(1).text !=
           std::to_string(first);
  });
  EXPECT_EQ(set.server(0).Call({"ROLE"}).items.at(0).text, "master") << "it does not know";
  network_->Heal();
  set.AwaitSettled();
  EXPECT_EQ(set.server(0).Call({"ROLE"}).items.at(0).text, "slave");
}

}  // namespace
}  // namespace stockade::testing
