// How long a process may trust its memory.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <future>
#include <latch>
#include <string>
#include <thread>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {
namespace {

class TierTrustTest : public RedisTierTest {
 protected:
  static RedisCacheTierOptions ShortTrust() {
    RedisCacheTierOptions options = PatientTier();
    options.max_staleness = absl::Milliseconds(300);
    options.timeout = absl::Seconds(1);
    return options;
  }
};

TEST_F(TierTrustTest, ServerStops_TrustEndsAtMostMaxStalenessLater) {
  auto [a, b] = TwoNodes(server.url(), ShortTrust(), PatientTier());
  Await("trust", [&] { return a.trusted(); });
  server.Pause();
  const Instant stopped = a.tier->clock()->Now();
  while (a.trusted()) EXPECT_LE(a.cache->trusted_until(), stopped + absl::Milliseconds(300));
  EXPECT_LE(a.cache->trusted_until(), stopped + absl::Milliseconds(300));
  const Instant before = a.tier->clock()->Now();
  EXPECT_EQ(a.Ask("k").kind, Answer::kAway);
  EXPECT_LT(a.tier->clock()->Now() - before, absl::Seconds(20)) << "within its time-out";
  server.Resume();
  Await("trust", [&] { return a.trusted(); });
  Await("an answer", [&] { return a.Ask("k").kind == Answer::kGranted; });
  EXPECT_EQ(a.ear->resets(), 0) << "nothing was lost";
}

TEST_F(TierTrustTest, NetworkIsCut_TrustEndsAndWhatWasMissedIsApplied) {
  TcpProxy proxy(server.port());
  TierNode a(RedisUrl(proxy.port()), ShortTrust());
  TierNode b(server.url());
  Await("trust", [&] { return a.trusted(); });
  proxy.Freeze();
  Await("the end of trust", [&] { return !a.trusted(); });
  const TierInvalidated done = b.InvalidateKey("k");
  ASSERT_TRUE(done.accepted);
  EXPECT_TRUE(a.ear->heard().empty());
  proxy.Thaw();
  Await("trust", [&] {
    // Trust comes back only after the entry was applied.
    if (!a.trusted()) return false;
    EXPECT_EQ(a.ear->heard().size(), 1u);
    return true;
  });
  EXPECT_EQ(a.ear->resets(), 0);
}

// When Redis comes back, each process drops what it has in memory. If it could not be asked at once, each process of
// the fleet would load all its keys.
TEST_F(TierTrustTest, ServerComesBack_QuestionsAfterTheResetWaitForIt) {
  RedisCacheTierOptions options = PatientTier();
  options.timeout = absl::Seconds(5);
  options.redis.max_backoff = absl::Milliseconds(20);
  TierNode a(server.url(), options);
  std::atomic<bool> restarted = false;
  std::jthread asking;
  std::promise<TierAnswer> answer;
  a.ear->during = [&] {
    if (!restarted.exchange(false)) return;
    std::latch asks(1);
    asking = std::jthread([&] {
      asks.count_down();
      answer.set_value(a.Ask("k"));
    });
    asks.wait();
    poll(nullptr, 0, 50);  // It would be answered by now if it did not wait.
  };
  server.Kill();
  Await("the end of answers", [&] { return a.Ask("k").kind == Answer::kAway; });
  restarted = true;
  server.Restart();
  EXPECT_EQ(answer.get_future().get().kind, Answer::kGranted);
}

TEST_F(TierTrustTest, ReplyIsSlow_TrustCountsFromWhenTheHeartbeatWasSent) {
  TcpProxy proxy(server.port());
  RedisCacheTierOptions options = PatientTier();
  options.max_staleness = absl::Seconds(5);
  options.pubsub = false;  // What is held is the reply to a heartbeat.
  TierNode a(RedisUrl(proxy.port()), options);
  Await("trust", [&] { return a.trusted(); });
  proxy.Hold();
  ASSERT_TRUE(proxy.Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
  server.Pause();  // The reply that is held is the last one.
  const Instant sent_before = a.tier->clock()->Now();
  const Instant earlier = a.cache->trusted_until();
  Await("time to pass", [&] { return a.tier->clock()->Now() > sent_before + absl::Milliseconds(200); });
  proxy.Release();
  Await("the reply", [&] { return a.cache->trusted_until() > earlier; });
  EXPECT_LE(a.cache->trusted_until(), sent_before + absl::Seconds(5));
  server.Resume();
}

TEST_F(TierTrustTest, ListenerIsSlow_TrustWaitsForIt) {
  auto [a, b] = TwoNodes(server.url(), ShortTrust(), PatientTier());
  std::latch called(1);
  std::latch go_on(1);
  a.ear->during = [&] {
    called.count_down();
    go_on.wait();
  };
  ASSERT_TRUE(b.InvalidateKey("k").accepted);
  called.wait();
  Await("the end of trust", [&] { return !a.trusted(); });
  EXPECT_TRUE(a.ear->heard().empty());
  EXPECT_EQ(a.Ask("k").kind, Answer::kAway) << "the server may be an old master";
  go_on.count_down();
  Await("trust", [&] { return a.trusted(); });
  EXPECT_EQ(a.ear->heard().size(), 1u);
}

// A server that refuses writes may be an old master, so it must not give trust, although it answers.
TEST_F(TierTrustTest, ServerLacksReplicas_GivesNoTrustAndIsNotAsked) {
  TierNode a(server.url(), ShortTrust());
  ASSERT_EQ(TierNode(server.url()).Load("k", "v").kind, Filled::kStored);
  ASSERT_EQ(server.Call({"CONFIG", "SET", "min-replicas-to-write", "1"}).text, "OK");
  Await("the end of trust", [&] { return !a.trusted(); });
  Await("the end of answers", [&] { return a.Ask("k").kind == Answer::kAway; });
  ASSERT_EQ(server.Call({"CONFIG", "SET", "min-replicas-to-write", "0"}).text, "OK");
  Await("an answer", [&] { return a.Ask("k").kind == Answer::kHit; });
}

TEST_F(TierTrustTest, ServerBecomesAReplica_GivesNoTrust) {
  RedisServer other;
  TierNode a(server.url(), ShortTrust());
  ASSERT_EQ(TierNode(server.url()).Load("k", "v").kind, Filled::kStored);
  ASSERT_EQ(server.Call({"REPLICAOF", "127.0.0.1", std::to_string(other.port())}).text, "OK");
  Await("the end of trust", [&] { return !a.trusted(); });
  Await("the end of answers", [&] { return a.Ask("k").kind == Answer::kAway; });
}

TEST_F(TierTrustTest, Heartbeats_AreNotReplicatedAndGrowNothing) {
  TierNode a(server.url());
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  const std::string changes = server.Info("rdb_changes_since_last_save");
  const Instant before = a.cache->trusted_until();
  Await("heartbeats", [&] { return a.cache->trusted_until() > before + absl::Milliseconds(100); });
  EXPECT_EQ(server.Info("rdb_changes_since_last_save"), changes);
}

TEST_F(TierTrustTest, ServerRestartsWithItsData_ANewReignBegins) {
  RedisServer durable({.appendonly = true});
  auto [a, b] = TwoNodes(durable.url());
  const TierFilled stored = a.Load("k", "old");
  ASSERT_EQ(stored.kind, Filled::kStored);
  const TierAnswer loading = a.Ask("loading");
  durable.Restart();
  ASSERT_EQ(durable.Call({"EXISTS", "sc1:{test}:v:products:product/1:k"}).text, "1");
  ASSERT_TRUE(a.ear->AwaitResets(1));
  ASSERT_TRUE(b.ear->AwaitResets(1));
  ASSERT_EQ(durable.Call({"EXISTS", "sc1:{test}:l:products:product/1:loading"}).text, "1");
  EXPECT_EQ(b.Ask("loading").kind, Answer::kGranted) << "a lease of the former reign is none";
  EXPECT_EQ(a.Fill("loading", loading.lease, "old").kind, Filled::kRefused);
  const TierAnswer granted = a.Ask("k");
  EXPECT_EQ(granted.kind, Answer::kGranted);
  EXPECT_EQ(b.Ask("k").kind, Answer::kBusy) << "one reign for both";
  EXPECT_GT(granted.lease.position, stored.position) << "positions grow across reigns";
  EXPECT_EQ(a.Fill("k", granted.lease, "new").kind, Filled::kStored);
  EXPECT_EQ(b.Ask("k").record->bytes, "new");
  EXPECT_EQ(a.ear->resets(), 1);
}

}  // namespace
}  // namespace stockade::testing
