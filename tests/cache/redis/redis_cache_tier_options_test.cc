#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <regex>
#include <string>
#include <string_view>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_server.h"
#include "stockade/base/log.h"
#include "stockade/cache/redis_cache_tier.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

TEST(RedisCacheTierOptionsTest, Validate_APrefix_IsEnough) {
  RedisCacheTierOptions options;
  options.prefix = "shop";
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
}

TEST(RedisCacheTierOptionsTest, Validate_BadValues_NameTheFieldAndTheValue) {
  struct Case {
    std::function<void(RedisCacheTierOptions&)> change;
    std::string message;
  };
  const Case cases[] = {
      {[](auto& o) { o.prefix = ""; }, "prefix = '' is not 1 to 64 printable"},
      {[](auto& o) { o.prefix = "a b"; }, "prefix = 'a b' is not"},
      {[](auto& o) { o.prefix = "a\nb"; }, "prefix = 'a\\nb' is not"},
      {[](auto& o) { o.prefix = "{a}"; }, "prefix = '{a}' is not"},
      {[](auto& o) { o.prefix = std::string(65, 'x'); }, "prefix = 'xxx"},
      {[](auto& o) { o.heartbeat = absl::ZeroDuration(); }, "heartbeat = 0 is not in 1ms..2.5s"},
      {[](auto& o) { o.heartbeat = absl::Seconds(3); }, "heartbeat = 3s is not in 1ms..2.5s"},
      {[](auto& o) { o.max_staleness = absl::Milliseconds(9); }, "max_staleness = 9ms is not in 10ms..1h"},
      {[](auto& o) { o.max_staleness = absl::InfiniteDuration(); }, "max_staleness = inf is not in"},
      {[](auto& o) { o.timeout = absl::ZeroDuration(); }, "timeout = 0 is not in 1ms..1m"},
      {[](auto& o) { o.lease = absl::Minutes(2); }, "lease = 2m is not in 10ms..1m"},
      {[](auto& o) { o.max_load = absl::Seconds(1); }, "max_load = 1s is not in 2s..24h"},
      {[](auto& o) { o.max_ttl = absl::Milliseconds(999); }, "max_ttl = 999ms is not in 1s..8784h"},
      {[](auto& o) { o.max_ttl = absl::InfiniteDuration(); }, "max_ttl = inf is not in"},
      {[](auto& o) { o.journal_length = 99; }, "journal_length = 99 is not in 100..10000000"},
      {[](auto& o) { o.max_value_bytes = 64 << 20; }, "max_value_bytes = 67108864 is not 64 KiB below"},
      {[](auto& o) { o.redis.name = ""; }, "name"},
  };
  for (const Case& one : cases) {
    RedisCacheTierOptions options;
    options.prefix = "shop";
    one.change(options);
    const absl::Status invalid = options.Validate();
    EXPECT_TRUE(absl::IsInvalidArgument(invalid)) << one.message;
    EXPECT_THAT(std::string(invalid.message()), ::testing::HasSubstr(one.message));
    EXPECT_EQ(RedisCacheTier::Connect("redis://127.0.0.1:1", options).status(), invalid);
  }
}

class RedisCacheTierUserTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  static std::string UrlOfAlice(const RedisServer& server) {
    return "redis://alice:secret@127.0.0.1:" + std::to_string(server.port());
  }
};

// The user of docs/FLEET_CACHE_WIRE.md, which has the rights that the tier needs, and no others.
TEST_F(RedisCacheTierUserTest, User_WithTheDocumentedRights_CanDoEverything) {
  const std::string rights =
      "~sc1:{test}:* resetchannels &sc1:{test}:* -@all +info +client|setname +eval +evalsha +time +hmget +hget +hset "
      "+hdel +hlen +get "
      "+getrange +set +del +unlink +pttl +pexpire +xadd +xrange +xrevrange +multi +exec +ping +publish +subscribe "
      "+unsubscribe";
  RedisServer server({.users = {"alice on >secret " + rights}});
  TierNode a(UrlOfAlice(server));
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(a.Load("k", {.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
    EXPECT_EQ(a.Ask("k").kind, Answer::kHit);
    EXPECT_TRUE(a.Invalidate(Target::kKey, "k", true).accepted);
    EXPECT_TRUE(a.InvalidateTag("tag").accepted);
    EXPECT_TRUE(a.InvalidateAll().accepted);
    Await("a message", [&] { return a.tier->Stats().subscribed && !a.ear->heard().empty(); });
    server.Call({"FLUSHALL"});
  }
  EXPECT_EQ(server.Call({"ACL", "LOG"}).items.size(), 0u);
}

// A server or a proxy without pub/sub: the processes poll.
TEST_F(RedisCacheTierUserTest, User_WithoutMessages_WorksAndIsWarned) {
  for (const char* rights : {"allchannels -publish", "allchannels -subscribe", "resetchannels"}) {
    SCOPED_TRACE(rights);
    RedisServer server({.users = {std::string("alice on >secret ~* +@all ") + rights}});
    const bool may_subscribe = std::string_view(rights) == "allchannels -publish";
    std::atomic<bool> warned{false};
    SetLogSink([&](LogSeverity, std::string_view message) {
      if (message.find("finds changes by polling: PERMISSION_DENIED") != std::string_view::npos) warned = true;
    });
    {
      TierNode a(UrlOfAlice(server));
      const TierAnswer granted = a.Ask("k");
      ASSERT_EQ(granted.kind, Answer::kGranted);
      EXPECT_EQ(a.Ask("k").kind, Answer::kBusy);
      EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
      EXPECT_TRUE(a.InvalidateKey("k").accepted);
      Await("the heartbeat", [&] { return !a.ear->heard().empty(); });
      if (may_subscribe) {
        AwaitSubscribed(a);
      } else {
        Await("the warning", [&] { return warned.load(); });
        EXPECT_FALSE(a.tier->Stats().subscribed);
      }
    }
    SetLogSink({});
    EXPECT_EQ(warned, !may_subscribe);
  }
}

// A hit without tags is a transaction; a script does the same.
TEST_F(RedisCacheTierUserTest, User_WithOrWithoutTransactions_GetsHits) {
  for (const char* rights : {"+@all", "+@all -multi", "+@all -exec"}) {
    SCOPED_TRACE(rights);
    RedisServer server({.users = {std::string("alice on >secret ~* ") + rights}});
    TierNode a(UrlOfAlice(server));
    ASSERT_EQ(a.Load("k", "v").kind, Filled::kStored);
    a.AskUntilItReads("k");
    const TierAnswer hit = a.Ask("k");
    ASSERT_EQ(hit.kind, Answer::kHit);
    EXPECT_EQ(hit.record->bytes, "v");
    const std::string calls = server.Call({"INFO", "commandstats"}).text;
    const std::regex has_run("cmdstat_exec:calls=[1-9][^\n]*,failed_calls=0");
    EXPECT_EQ(std::regex_search(calls, has_run), std::string_view(rights) == "+@all") << calls;
  }
}

TEST_F(RedisCacheTierUserTest, User_WithoutTheKeys_IsPermissionDenied) {
  RedisServer server({.users = {"alice on >secret ~sc1:{other}:* +@all"}});
  const absl::Status refused = RedisCacheTier::Connect(UrlOfAlice(server), PatientTier()).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("RedisCacheTier 'test'"));
}

TEST_F(RedisCacheTierUserTest, User_WithoutInfo_WorksAndIsWarned) {
  RedisServer server({.users = {"alice on >secret ~* &* +@all -info"}});
  std::string logged;
  SetLogSink([&](LogSeverity, std::string_view message) { logged += message; });
  TierNode a(UrlOfAlice(server));
  SetLogSink({});
  EXPECT_THAT(logged, ::testing::HasSubstr("failovers and restarts of Redis cannot be detected"));
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
  AwaitSubscribed(a);
  ASSERT_TRUE(a.ear->AwaitPosition(a.InvalidateKey("k").position));
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
}

}  // namespace
}  // namespace stockade::testing
