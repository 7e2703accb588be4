#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "redis/support/redis_deployment.h"

namespace stockade::testing {
namespace {

class RedisDeploymentFixtureTest : public ::testing::TestWithParam<RedisSetup> {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    redis_ = std::make_unique<RedisDeployment>(GetParam());
  }

  // Of the server that serves the key.
  uint16_t PortOf(const std::string& key) {
    return static_cast<uint16_t>(std::stoi(InfoField(redis_->Call(key, {"INFO", "server"}).text, "tcp_port")));
  }

  std::unique_ptr<RedisDeployment> redis_;
};

TEST_P(RedisDeploymentFixtureTest, Url_OfTheSetup_HasItsScheme) {
  const std::string scheme = GetParam() == RedisSetup::kSentinel  ? "redis+sentinel://127.0.0.1:"
                             : GetParam() == RedisSetup::kCluster ? "redis+cluster://127.0.0.1:"
                                                                  : "redis://127.0.0.1:";
  EXPECT_EQ(redis_->url().substr(0, scheme.size()), scheme);
}

TEST_P(RedisDeploymentFixtureTest, KillConnections_OfACallerAndASubscriber_ClosesBoth) {
  RawRedis caller(PortOf("k"));
  RawRedis subscriber(PortOf("k"));
  EXPECT_EQ(caller.Call({"PING"}), "PONG");
  EXPECT_EQ(subscriber.Call({"SUBSCRIBE", "news"}).items[0], "subscribe");
  redis_->KillConnections();
  EXPECT_TRUE(caller.Read().lost());
  EXPECT_TRUE(subscriber.Read().lost());
  EXPECT_EQ(redis_->Call("k", {"SET", "k", "v"}), "OK");
}

TEST_P(RedisDeploymentFixtureTest, FlushScripts_OfALoadedScript_ItIsUnknown) {
  for (const char* const key : {"a", "b", "c"}) {  // On three nodes of a cluster.
    const std::string sha = redis_->Call(key, {"SCRIPT", "LOAD", "return 7"}).text;
    EXPECT_EQ(redis_->Call(key, {"EVALSHA", sha, "0"}), "7");
    redis_->FlushScripts();
    EXPECT_EQ(redis_->Call(key, {"EVALSHA", sha, "0"}).text.substr(0, 8), "NOSCRIPT");
  }
}

TEST_P(RedisDeploymentFixtureTest, RestartAll_WithData_KeepsUrlAndData) {
  const std::string url = redis_->url();
  EXPECT_EQ(redis_->Call("k", {"SET", "k", "v"}), "OK");
  RawRedis open(PortOf("k"));
  EXPECT_EQ(open.Call({"PING"}), "PONG");
  redis_->RestartAll();
  EXPECT_TRUE(open.Read().lost());
  EXPECT_EQ(redis_->url(), url);
  EXPECT_EQ(redis_->Call("k", {"GET", "k"}), "v");
}

INSTANTIATE_TEST_SUITE_P(Setups, RedisDeploymentFixtureTest, ::testing::ValuesIn(RedisSetups()), RedisSetupName);

}  // namespace
}  // namespace stockade::testing
