// The start of a tier: a service whose cache is away starts all the same, and one whose options are wrong does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/redis/tier_node.h"
#include "cache/test_cache.h"
#include "redis/support/redis_cluster.h"
#include "redis/support/redis_server.h"
#include "redis/support/sentinel_set.h"
#include "stockade/base/log.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;

// Collects what is logged.
class Lines {
 public:
  Lines() {
    SetLogSink([this](LogSeverity severity, std::string_view message) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(severity, message);
    });
  }
  ~Lines() { SetLogSink({}); }

  size_t Count(LogSeverity severity, std::string_view part) const {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const auto& [level, line] : lines_) count += level == severity && line.find(part) != std::string::npos ? 1 : 0;
    return count;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<LogSeverity, std::string>> lines_;
};

class TierStartTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  static RedisCacheTierOptions Options(bool require_redis = false) {
    RedisCacheTierOptions options = PatientTier();
    options.timeout = absl::Seconds(3);
    options.require_redis = require_redis;
    options.redis.connect_timeout = absl::Seconds(3);
    options.redis.max_backoff = absl::Milliseconds(40);
    return options;
  }
  static absl::Status Required(const std::string& url) { return RedisCacheTier::Connect(url, Options(true)).status(); }

  // The tier begins without Redis, and is of use once `comes` has run.
  template <typename Comes>
  static void ExpectLater(const std::string& url, const Comes& comes) {
    const Lines lines;
    TierNode node(url, Options());
    EXPECT_TRUE(node.tier->Stats().away);
    EXPECT_EQ(node.Ask("k").kind, Answer::kAway);
    EXPECT_FALSE(node.InvalidateKey("k").accepted);
    comes();
    Await("trust", [&] { return node.trusted(); });
    EXPECT_TRUE(node.AwaitAccepted());
    Await("a load", [&] { return node.Provide("k", "v"); });
    Await("messages", [&] { return node.tier->Stats().subscribed; });
    EXPECT_EQ(lines.Count(LogSeverity::kWarning, "begins without Redis"), 1u);
    EXPECT_EQ(lines.Count(LogSeverity::kWarning, "a heartbeat failed"), 0u) << "the same was logged already";
    EXPECT_EQ(lines.Count(LogSeverity::kError, ""), 0u);
  }
};

TEST_F(TierStartTest, NobodyListens_BeginsWithoutRedis) {
  RedisServer server;
  server.Kill();
  EXPECT_TRUE(absl::IsUnavailable(Required(server.url())));
  ExpectLater(server.url(), [&] { server.Restart(); });
}

TEST_F(TierStartTest, ServerIsSilent_BeginsWithoutRedis) {
  RedisServer server;
  server.Pause();
  RedisCacheTierOptions options = Options(true);
  options.redis.connect_timeout = absl::Milliseconds(200);
  EXPECT_FALSE(RedisCacheTier::Connect(server.url(), options).ok());
  options.require_redis = false;
  const auto begun = RedisCacheTier::Connect(server.url(), options);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_TRUE((*begun)->Stats().away);
  server.Resume();
  Await("trust", [&] { return (*begun)->Stats().trusted; });
}

TEST_F(TierStartTest, ServerLoadsItsData_BeginsWithoutRedis) {
  // The server handles clients in between, so that it answers LOADING.
  RedisServer server(
      {.config = {"key-load-delay 100000", "loading-process-events-interval-bytes 1024", "rdbcompression no"}});
  for (int i = 0; i < 30; ++i) server.Call({"RPUSH", "k" + std::to_string(i), std::string(2'000, 'v')});
  ASSERT_EQ(server.Call({"SAVE"}).type, '+');
  server.Kill();
  std::thread restart([&] { server.Restart(); });  // Returns when the data are loaded.
  absl::Status refused;
  Await("LOADING", [&] {
    refused = Required(server.url());
    return refused.message().find("LOADING") != std::string::npos;
  });
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  ExpectLater(server.url(), [&] { restart.join(); });
}

TEST_F(TierStartTest, ServerIsAReplica_BeginsWithoutRedis) {
  RedisServer master;
  for (const char* line : {"replica-serve-stale-data no", "replica-serve-stale-data yes"}) {
    SCOPED_TRACE(line);
    RedisServer replica({.replica_of = master.Host(), .config = {line}});
    if (std::string_view(line).ends_with("no")) {
      ASSERT_EQ(replica.Call({"REPLICAOF", "127.0.0.1", "1"}).text, "OK");
      EXPECT_THAT(std::string(Required(replica.url()).message()), HasSubstr("MASTERDOWN"));
    } else {
      Await("replication", [&] { return replica.Info("master_link_status") == "up"; });
      EXPECT_THAT(std::string(Required(replica.url()).message()), HasSubstr("READONLY"));
    }
    ExpectLater(replica.url(), [&] { replica.Call({"REPLICAOF", "NO", "ONE"}); });
  }
}

TEST_F(TierStartTest, ServerRefusesForNow_BeginsWithoutRedis) {
  RedisServer server;
  ASSERT_EQ(server.Call({"CONFIG", "SET", "min-replicas-to-write", "1"}).text, "OK");
  EXPECT_THAT(std::string(Required(server.url()).message()), HasSubstr("NOREPLICAS"));
  ExpectLater(server.url(), [&] { server.Call({"CONFIG", "SET", "min-replicas-to-write", "0"}); });
}

TEST_F(TierStartTest, TooManyClients_BeginsWithoutRedis) {
  RedisServer server({.config = {"maxclients 1"}});
  auto raw = std::make_unique<RawRedis>(server.port());
  ASSERT_EQ(raw->Call({"PING"}).text, "PONG");
  EXPECT_THAT(std::string(Required(server.url()).message()), HasSubstr("max number of clients"));
  ExpectLater(server.url(), [&] {
    ASSERT_EQ(raw->Call({"CONFIG", "SET", "maxclients", "100"}).text, "OK");
    raw.reset();
  });
}

TEST_F(TierStartTest, SentinelsKnowNoMaster_BeginsWithoutRedis) {
  SentinelSet set;
  const std::string url = set.url().substr(0, set.url().rfind('/')) + "/later";
  EXPECT_THAT(std::string(Required(url).message()), HasSubstr("unknown master 'later'"));
  ExpectLater(url, [&] {
    for (size_t n = 0; n < 3; ++n) {
      set.sentinel(n).Call({"SENTINEL", "MONITOR", "later", "127.0.0.1", std::to_string(set.master_port()), "2"});
    }
  });
}

// Whether channels belong to slots, the first node tells.
TEST_F(TierStartTest, ClusterIsAway_BeginsWithoutRedis) {
  RedisCluster cluster;
  for (size_t n = 0; n < cluster.size(); ++n) cluster.node(n).Kill();
  EXPECT_TRUE(absl::IsUnavailable(Required(cluster.url())));
  ExpectLater(cluster.url(), [&] {
    for (size_t n = 0; n < cluster.size(); ++n) cluster.node(n).Restart();
    cluster.AwaitSettled();
  });
}

TEST_F(TierStartTest, OptionsAreWrong_IsAnError) {
  RedisServer server({.password = "right"});
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  const absl::Status password = RedisCacheTier::Connect("redis://:wrong@" + address, Options()).status();
  EXPECT_TRUE(absl::IsUnauthenticated(password)) << password;
  const absl::Status none = RedisCacheTier::Connect("redis://" + address, Options()).status();
  EXPECT_TRUE(absl::IsUnauthenticated(none)) << none;
  const absl::Status database = RedisCacheTier::Connect("redis://:right@" + address + "/999", Options()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(database)) << database;
  SentinelSet set;
  RedisCacheTierOptions options = Options();
  options.redis.allowed_hosts = {"elsewhere.example.com"};
  std::string url = set.url();
  for (size_t at; (at = url.find("127.0.0.1")) != std::string::npos;) url.replace(at, 9, "localhost");
  const absl::Status host = RedisCacheTier::Connect(url, options).status();
  EXPECT_TRUE(absl::IsPermissionDenied(host)) << host;
}

// What comes later stops no service, but it is an error that somebody has to see.
TEST_F(TierStartTest, OptionsAreWrong_ButTheServerWasAway_IsLoggedAndCounted) {
  MetricsRegistry registry;
  RedisServer server;
  server.Kill();
  RedisCacheTierOptions options = Options();
  options.metrics = &registry;
  const Lines lines;
  const std::string url = "redis://nobody:secret@127.0.0.1:" + std::to_string(server.port());
  const auto tier = RedisCacheTier::Connect(url, options);
  ASSERT_TRUE(tier.ok()) << tier.status();
  server.Restart();
  Await("the error", [&] { return lines.Count(LogSeverity::kError, "WRONGPASS") > 0; });
  EXPECT_GE(Metric(registry, "stockade_cache_tier_heartbeats_total", "refused"), 1);
  ASSERT_EQ(server.Call({"ACL", "SETUSER", "nobody", "on", ">secret", "~*", "&*", "+@all"}).text, "OK");
  Await("trust", [&] { return (*tier)->Stats().trusted; });
  ASSERT_EQ(server.Call({"ACL", "SETUSER", "nobody", "-eval", "-evalsha"}).text, "OK");
  Await("the error", [&] { return lines.Count(LogSeverity::kError, "NOPERM") > 0; });
  EXPECT_EQ(lines.Count(LogSeverity::kError, ""), 2u) << "each once";
}

}  // namespace
}  // namespace stockade::testing
