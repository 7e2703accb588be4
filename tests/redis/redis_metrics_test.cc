// What a client counts of its commands and connections, with a real server.
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <stdio.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "redis/support/connect_to.h"
#include "redis/support/redis_server.h"
#include "stockade/metrics/metrics_registry.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/exported.h"
#include "support/needs_program.h"
#include "support/tcp_proxy.h"

namespace stockade {
namespace {

using testing::RedisServer;
using testing::TcpProxy;

class RedisMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  std::unique_ptr<RedisClient> Connect(const std::string& url, RedisOptions options = {}) {
    options.name = "till";
    options.metrics = &registry_;
    return testing::ConnectTo(url, options);
  }

  double Value(const std::string& name) const {
    return testing::Exported(registry_, "stockade_redis_" + name + R"({client="till"})");
  }
  double Value(const std::string& name, const std::string& result) const {
    return testing::Exported(registry_, "stockade_redis_" + name + R"({client="till",result=")" + result + "\"}");
  }

  // Those that are not 0, as "success 2, timeout 1".
  std::string Results() const {
    std::string results;
    for (const char* result :
         {"success", "error", "timeout", "unavailable", "unknown_outcome", "refused", "cancelled"}) {
      const double count = Value("commands_total", result);
      if (count == 0) continue;
      results += (results.empty() ? "" : ", ") + std::string(result) + " " + std::to_string(static_cast<int>(count));
    }
    return results;
  }

  static RedisCommand Incr() { return RedisCommand("INCR").Key("n"); }

  MetricsRegistry registry_;
};

TEST_F(RedisMetricsTest, Answered_AreSuccessesAndErrors_WithTheirRoundTripsAndBatches) {
  RedisServer server;
  const auto redis = Connect(server.url());
  EXPECT_EQ(Value("connects_total", "success"), 1);
  EXPECT_EQ(Results(), "");
  ASSERT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg("v")).ok());
  ASSERT_FALSE(redis->Run(RedisCommand("LPUSH").Key("k").Arg("v")).ok());
  EXPECT_EQ(Results(), "success 1, error 1");
  EXPECT_EQ(Value("pipeline_commands_count"), 2);
  EXPECT_EQ(Value("round_trip_seconds_count"), 2);
  const std::vector<RedisCommand> ten(10, Incr());
  for (const auto& reply : redis->RunMany(ten)) ASSERT_TRUE(reply.ok());
  EXPECT_EQ(Results(), "success 11, error 1");
  EXPECT_EQ(Value("pipeline_commands_count"), 3);
  EXPECT_EQ(Value("pipeline_commands_sum"), 12);
  EXPECT_EQ(Value("round_trip_seconds_count"), 12);
  EXPECT_GT(Value("round_trip_seconds_sum"), 0);
  EXPECT_EQ(Value("retries_total"), 0);
  EXPECT_EQ(Value("connections_lost_total"), 0);
  EXPECT_EQ(Value("connects_total", "error"), 0);
}

TEST_F(RedisMetricsTest, UnknownScript_IsOneSuccessAndOneRetry) {
  RedisServer server;
  const auto redis = Connect(server.url());
  const RedisScript one("return 1");
  ASSERT_TRUE(redis->Run(RedisCommand(one, {})).ok());
  ASSERT_TRUE(redis->Run(RedisCommand(one, {})).ok());
  EXPECT_EQ(Results(), "success 2");
  EXPECT_EQ(Value("retries_total"), 1);
  EXPECT_EQ(Value("round_trip_seconds_count"), 3);
}

TEST_F(RedisMetricsTest, NoReplyInTime_IsATimeout) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = Connect(testing::RedisUrl(proxy.port()));
  proxy.Hold();
  EXPECT_FALSE(redis->Run(Incr(), {.timeout = absl::Milliseconds(30)}).ok());
  EXPECT_FALSE(redis->RunFuture(Incr(), {.timeout = absl::Milliseconds(30)}).get().ok());
  EXPECT_EQ(Results(), "timeout 2");
  EXPECT_EQ(Value("pending_commands"), 0);
}

TEST_F(RedisMetricsTest, ReplyLost_IsAnUnknownOutcome_OrARetryWhereItIsIdempotent) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = Connect(testing::RedisUrl(proxy.port()));
  proxy.DropReply();
  EXPECT_FALSE(redis->Run(Incr()).ok());
  EXPECT_EQ(Results(), "unknown_outcome 1");
  EXPECT_EQ(Value("connections_lost_total"), 1);
  EXPECT_EQ(Value("retries_total"), 0);
  ASSERT_TRUE(redis->Run(RedisCommand("PING")).ok());
  proxy.DropReply();
  EXPECT_TRUE(redis->Run(Incr().Idempotent()).ok());
  EXPECT_EQ(Results(), "success 2, unknown_outcome 1");
  EXPECT_EQ(Value("connections_lost_total"), 2);
  EXPECT_EQ(Value("retries_total"), 1);
  EXPECT_EQ(Value("connects_total", "success"), 3);
}

TEST_F(RedisMetricsTest, ServerAway_IsUnavailable_AndItsConnectsAreErrors) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = Connect(testing::RedisUrl(proxy.port()));
  proxy.Refuse();
  proxy.CloseAll();
  testing::Await("the client to try again", [&] { return Value("connects_total", "error") > 0; });
  EXPECT_FALSE(redis->Run(Incr(), {.timeout = absl::Milliseconds(30)}).ok());
  EXPECT_EQ(Results(), "unavailable 1");
  EXPECT_EQ(Value("connections_lost_total"), 1);
  EXPECT_EQ(Value("connects_total", "success"), 1);
}

TEST_F(RedisMetricsTest, QueueFull_IsRefused_WhatWaitsIsPending_ThenCancelled_AndStaysCounted) {
  RedisServer server;
  TcpProxy proxy(server.port());
  auto redis =
      Connect(testing::RedisUrl(proxy.port()), {.command_timeout = absl::Seconds(60), .max_pending_commands = 2});
  proxy.Hold();
  auto first = redis->RunFuture(Incr());
  auto second = redis->RunFuture(Incr());
  EXPECT_EQ(Value("pending_commands"), 2);
  EXPECT_FALSE(redis->Run(Incr()).ok());
  EXPECT_EQ(Results(), "refused 1");
  redis.reset();
  EXPECT_FALSE(first.get().ok());
  EXPECT_FALSE(second.get().ok());
  EXPECT_EQ(Results(), "refused 1, cancelled 2");
  EXPECT_EQ(Value("pending_commands"), 0);
}

TEST_F(RedisMetricsTest, Promtool_ChecksWhatIsExported_IsSilent) {
  STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
  RedisServer server;
  const auto redis = Connect(server.url());
  ASSERT_TRUE(redis->Run(RedisCommand("PING")).ok());
  std::FILE* const promtool = popen("promtool check metrics 2>&1 | { ! grep .; }", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string text = prometheus::TextSerializer().Serialize(registry_.Collect());
  EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), promtool), text.size());
  EXPECT_EQ(pclose(promtool), 0);
}

}  // namespace
}  // namespace stockade
