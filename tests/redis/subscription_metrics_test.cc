#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "redis/support/ear.h"
#include "redis/support/redis_server.h"
#include "stockade/metrics/metrics_registry.h"
#include "stockade/redis/redis_client.h"
#include "support/exported.h"

namespace stockade {
namespace {

using testing::Ear;
using testing::RedisServer;

class SubscriptionMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  double Value(const std::string& series) const { return testing::Exported(registry_, series); }

  MetricsRegistry registry_;
};

TEST_F(SubscriptionMetricsTest, MessagesChannelsAndConnections_AreCounted) {
  constexpr char kMessages[] = R"(stockade_redis_messages_total{client="shop"})";
  constexpr char kChannels[] = R"(stockade_redis_subscriptions{client="shop"})";
  constexpr char kConnects[] = R"(stockade_redis_connects_total{client="shop",result="success"})";
  constexpr char kLost[] = R"(stockade_redis_connections_lost_total{client="shop"})";
  const RedisServer server;
  auto client = *RedisClient::Connect(server.url(), {.name = "shop", .metrics = &registry_});
  EXPECT_EQ(Value(kConnects), 1);
  EXPECT_EQ(Value(kChannels), 0);
  Ear ear;
  RedisSubscription twice[] = {*client->Subscribe("news", ear.subscriber()),
                               *client->Subscribe("news", ear.subscriber())};
  const RedisSubscription other = *client->Subscribe("olds", ear.subscriber());
  ASSERT_TRUE(ear.AwaitConfirmations(3));
  EXPECT_EQ(Value(kChannels), 2);
  EXPECT_EQ(Value(kConnects), 2);
  server.Call({"PUBLISH", "news", "x"});
  ASSERT_TRUE(ear.AwaitMessages(2));
  EXPECT_EQ(Value(kMessages), 1);
  EXPECT_EQ(Value(kLost), 0);
  server.Call({"CLIENT", "KILL", "TYPE", "pubsub"});
  ASSERT_TRUE(ear.AwaitConfirmations(6));
  EXPECT_EQ(Value(kConnects), 3);
  EXPECT_EQ(Value(kLost), 1);
  twice[0].Unsubscribe();
  EXPECT_EQ(Value(kChannels), 2);
  twice[1].Unsubscribe();
  EXPECT_EQ(Value(kChannels), 1);
  client.reset();
  EXPECT_EQ(Value(kMessages), 1);
}

}  // namespace
}  // namespace stockade
