#include "subscription_hub.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "redis/support/channel_router.h"
#include "redis/support/ear.h"
#include "redis/support/redis_server.h"
#include "stockade/base/strings.h"
#include "support/await.h"

namespace stockade::redis_internal {
namespace {

using testing::ChannelRouter;
using testing::Ear;
using testing::RawRedis;
using testing::RedisServer;

// Its first connection brings answers along that the hub has asked nothing for.
class SpoilingRouter final : public ChannelRouter {
 public:
  SpoilingRouter(const RedisServer& server, std::string spoil) : port_(server.port()), spoil_(std::move(spoil)) {}

  int connections() const { return connections_; }

  absl::StatusOr<std::unique_ptr<Link>> ConnectForChannel(std::string_view, Instant deadline) override {
    absl::StatusOr<std::unique_ptr<Link>> link =
        Link::Connect({.host = "127.0.0.1", .port = port_}, {}, size_t{1} << 20, deadline);
    if (connections_++ == 0) (void)(*link)->Send(spoil_);
    return link;
  }

 private:
  const uint16_t port_;
  const std::string spoil_;
  std::atomic<int> connections_ = 0;
};

class SubscriptionHubTest : public ::testing::TestWithParam<std::pair<const char*, std::string>> {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

TEST_P(SubscriptionHubTest, AnswerToNothing_BreaksTheConnectionAndTheNextIsGood) {
  const RedisServer server;
  ComponentMetrics metrics;
  SpoilingRouter router(server, GetParam().second);
  SubscriptionHub hub({}, &router, &metrics, *EventFd::Create());
  Ear ear;
  const auto subscription = *hub.Subscribe("news", ear.subscriber());
  const auto other = *hub.Subscribe("olds", ear.subscriber());
  // The spoilt connection may have confirmed them before it broke.
  while (router.connections() < 2 || !hub.AwaitSubscribed(*subscription, absl::Seconds(30)).ok()) {
  }
  EXPECT_TRUE(hub.AwaitSubscribed(*subscription, absl::Seconds(30)).ok());
  EXPECT_EQ(router.connections(), 2);
  EXPECT_EQ(server.Call({"PUBLISH", "news", "x"}), "1");
  EXPECT_TRUE(ear.AwaitMessage("x"));
  hub.Stop();
}

INSTANTIATE_TEST_SUITE_P(Redis, SubscriptionHubTest,
                         ::testing::Values(std::pair("String", RawRedis::Encode({"ECHO", "x"})),
                                           std::pair("Pong", RawRedis::Encode({"PING"})),
                                           std::pair("Integer", RawRedis::Encode({"INCR", "k"})),
                                           std::pair("Array", RawRedis::Encode({"MGET", "k", "l", "m"})),
                                           std::pair("Subscribed", RawRedis::Encode({"SUBSCRIBE", "other"})),
                                           std::pair("SubscribedToPattern", RawRedis::Encode({"PSUBSCRIBE", "*"})),
                                           std::pair("Unsubscribed", RawRedis::Encode({"UNSUBSCRIBE", "news"})),
                                           std::pair("UnsubscribedFromNothing", RawRedis::Encode({"UNSUBSCRIBE"})),
                                           std::pair("Error", RawRedis::Encode({"NO-SUCH-COMMAND"})),
                                           std::pair("Protocol", std::string("*1\r\n:0\r\n"))),
                         [](const auto& tested) { return tested.param.first; });

// One of two servers at a time, as Sentinels name the master.
class TwoServerRouter final : public ChannelRouter {
 public:
  TwoServerRouter(uint16_t first, uint16_t second) : ports_{first, second} {}

  void Switch() {
    at_ = 1;
    TopologyChanged();
  }

  absl::StatusOr<std::string> ChannelHome(std::string_view) override { return Endpoint().ToString(); }
  absl::StatusOr<std::unique_ptr<Link>> ConnectForChannel(std::string_view, Instant deadline) override {
    return Link::Connect(Endpoint(), {}, size_t{1} << 20, deadline);
  }

 private:
  RedisEndpoint Endpoint() const { return {.host = "127.0.0.1", .port = ports_[at_]}; }

  const uint16_t ports_[2];
  std::atomic<int> at_ = 0;
};

TEST(SubscriptionHubTopologyTest, ChannelsHaveAnotherHome_AllGoThereThoughTheOldOneIsUp) {
  STOCKADE_NEEDS_REDIS();
  const RedisServer old_server;
  const RedisServer new_server;
  ComponentMetrics metrics;
  TwoServerRouter router(old_server.port(), new_server.port());
  SubscriptionHub hub({}, &router, &metrics, *EventFd::Create());
  Ear ears[2];
  const auto news = *hub.Subscribe("news", ears[0].subscriber());
  const auto olds = *hub.Subscribe("olds", ears[1].subscriber());
  for (Ear& ear : ears) ASSERT_TRUE(ear.AwaitConfirmations(1));
  router.Switch();
  for (Ear& ear : ears) ASSERT_TRUE(ear.AwaitConfirmations(2));
  testing::Await("the old connection's end", [&] { return old_server.Call({"PUBSUB", "CHANNELS"}).items.empty(); });
  EXPECT_EQ(new_server.Call({"PUBLISH", "olds", "x"}), "1");
  EXPECT_TRUE(ears[1].AwaitMessage("x"));
  hub.Stop();
}

}  // namespace
}  // namespace stockade::redis_internal
