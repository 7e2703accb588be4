#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "redis/support/raw_redis.h"
#include "redis/support/redis_server.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {
namespace {

class TcpProxyFixtureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>();
    proxy_ = std::make_unique<TcpProxy>(server_->port());
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<TcpProxy> proxy_;
};

TEST_F(TcpProxyFixtureTest, Pass_LargeValueBothWays_ArrivesWholeAndIsCounted) {
  RawRedis client(proxy_->port());
  const std::string value(3'000'000, 'v');
  EXPECT_EQ(client.Call({"SET", "k", value}), "OK");
  EXPECT_EQ(client.Call({"GET", "k"}), value);
  const TcpProxy::Counts counts = proxy_->counts();
  EXPECT_EQ(counts.accepted, 1u);
  EXPECT_EQ(counts.open, 1u);
  EXPECT_EQ(counts.to_server, RawRedis::Encode({"SET", "k", value}).size() + RawRedis::Encode({"GET", "k"}).size());
  EXPECT_EQ(counts.to_client, std::string("+OK\r\n$3000000\r\n\r\n").size() + value.size());
  EXPECT_EQ(counts.held, 0u);
}

TEST_F(TcpProxyFixtureTest, DropReply_OfAnIncrement_ItIsDoneAndNotHeard) {
  RawRedis client(proxy_->port());
  EXPECT_EQ(client.Call({"INCR", "n"}), "1");
  proxy_->DropReply();
  EXPECT_TRUE(client.Call({"INCR", "n"}).lost());
  EXPECT_EQ(server_->Call({"GET", "n"}), "2");
  EXPECT_EQ(proxy_->counts().cut, 1u);
  EXPECT_EQ(CallRedis(proxy_->port(), {"INCR", "n"}), "3") << "only one reply is dropped";
}

TEST_F(TcpProxyFixtureTest, CutReplyAfter_InTheMiddle_TheClientHasJustThatMuch) {
  server_->Call({"SET", "k", std::string(100'000, 'v')});
  RawRedis client(proxy_->port());
  EXPECT_EQ(client.Call({"PING"}), "PONG");
  const uint64_t before = proxy_->counts().to_client;
  proxy_->CutReplyAfter(50'000);
  EXPECT_TRUE(client.Call({"GET", "k"}).lost());
  EXPECT_EQ(proxy_->counts().to_client - before, 50'000u);
}

TEST_F(TcpProxyFixtureTest, CutReplyAfter_TheFirstOfTwo_TheSecondIsLost) {
  RawRedis client(proxy_->port());
  proxy_->CutReplyAfter(std::string("+PONG\r\n").size());
  client.Send("PING\r\nINCR n\r\n");
  EXPECT_EQ(client.Read(), "PONG");
  EXPECT_TRUE(client.Read().lost());
}

TEST_F(TcpProxyFixtureTest, SwitchTo_AnotherServer_OpenClientsAreClosedAndNewOnesReachIt) {
  RedisServer other;
  RawRedis client(proxy_->port());
  EXPECT_EQ(client.Call({"SET", "k", "first"}), "OK");
  proxy_->SwitchTo(other.port());
  EXPECT_TRUE(client.Call({"GET", "k"}).lost());
  EXPECT_EQ(CallRedis(proxy_->port(), {"GET", "k"}).type, '_');
  proxy_->SwitchTo(server_->port());
  EXPECT_EQ(CallRedis(proxy_->port(), {"GET", "k"}), "first");
}

TEST_F(TcpProxyFixtureTest, CloseAll_TwoClients_BothAreClosedAndNewOnesPass) {
  RawRedis one(proxy_->port());
  RawRedis two(proxy_->port());
  EXPECT_EQ(one.Call({"PING"}), "PONG");
  EXPECT_EQ(two.Call({"PING"}), "PONG");
  proxy_->CloseAll();
  EXPECT_TRUE(one.Read().lost());
  EXPECT_TRUE(two.Read().lost());
  EXPECT_EQ(proxy_->counts().open, 0u);
  EXPECT_EQ(CallRedis(proxy_->port(), {"PING"}), "PONG");
}

TEST_F(TcpProxyFixtureTest, Refuse_NewClients_AreClosedUntilAccept) {
  RawRedis open(proxy_->port());
  EXPECT_EQ(open.Call({"PING"}), "PONG");
  proxy_->Refuse();
  EXPECT_TRUE(CallRedis(proxy_->port(), {"PING"}).lost());
  EXPECT_EQ(open.Call({"PING"}), "PONG");
  EXPECT_EQ(proxy_->counts().accepted, 2u);
  proxy_->Accept();
  EXPECT_EQ(CallRedis(proxy_->port(), {"PING"}), "PONG");
}

TEST_F(TcpProxyFixtureTest, Hold_UntilRelease_TheServerHasDoneItAndTheReplyWaits) {
  RawRedis client(proxy_->port());
  EXPECT_EQ(client.Call({"INCR", "n"}), "1");
  proxy_->Hold();
  client.Send("INCR n\r\n");
  EXPECT_TRUE(proxy_->Await([](const TcpProxy::Counts& counts) { return counts.held == 4; }));
  EXPECT_EQ(server_->Call({"GET", "n"}), "2");
  EXPECT_EQ(proxy_->counts().to_client, 4u);
  proxy_->Release();
  EXPECT_EQ(client.Read(), "2");
  EXPECT_EQ(proxy_->counts().held, 0u);
}

TEST_F(TcpProxyFixtureTest, Hold_AndTheClientLeaves_TheServerSeesIt) {
  auto client = std::make_unique<RawRedis>(proxy_->port());
  EXPECT_EQ(client->Call({"PING"}), "PONG");
  proxy_->Hold();
  client->Send("PING\r\n");
  EXPECT_TRUE(proxy_->Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
  client.reset();
  EXPECT_TRUE(proxy_->Await([](const TcpProxy::Counts& counts) { return counts.open == 0 && counts.held == 0; }));
}

TEST_F(TcpProxyFixtureTest, Server_DiesAndComesBack_ClientsAreClosedAndThenPassAgain) {
  RawRedis client(proxy_->port());
  EXPECT_EQ(client.Call({"PING"}), "PONG");
  server_->Kill();
  EXPECT_TRUE(client.Read().lost());
  EXPECT_TRUE(CallRedis(proxy_->port(), {"PING"}).lost());
  server_->Restart();
  EXPECT_EQ(CallRedis(proxy_->port(), {"PING"}), "PONG");
}

}  // namespace
}  // namespace stockade::testing
