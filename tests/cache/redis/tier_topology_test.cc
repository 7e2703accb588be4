// Failovers by Sentinels, and slots that move.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_cluster.h"
#include "redis/support/sentinel_set.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {
namespace {

using Answer = TierAnswer::Kind;
using Filled = TierFilled::Kind;

class TierTopologyTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  // A call whose server has gone ends after a while.
  static RedisCacheTierOptions Options() {
    RedisCacheTierOptions options = PatientTier();
    options.timeout = absl::Seconds(3);
    options.redis.max_backoff = absl::Milliseconds(40);
    return options;
  }
};

// The old master had the invalidation, the new one has the old value. `dies`: so does the process that invalidated.
void LoseAnInvalidation(const RedisCacheTierOptions& options, bool dies) {
  SentinelSet set;
  TierNode a(set.url(), options);
  TierNode b(set.url(), options);
  ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
  const TierAnswer loading = a.Ask("loading");
  const TierAnswer voided = a.Ask("voided");
  RedisServer& master = set.master();
  std::vector<RedisServer*> replicas;
  for (size_t n = 0; n < 3; ++n) {
    if (&set.server(n) != &master) replicas.push_back(&set.server(n));
  }
  for (RedisServer* replica : replicas) {
    Await("replication", [&] { return replica->Call({"EXISTS", kRecord}).text == "1"; });
    // A stopped process would still read what has reached its socket. So the master closes the connections.
    replica->Pause();
  }
  ASSERT_EQ(master.Call({"CLIENT", "KILL", "TYPE", "replica"}).text, "2");
  ASSERT_EQ(master.Info("connected_slaves"), "0");
  ASSERT_TRUE(b.InvalidateKey("k").accepted);
  ASSERT_TRUE(b.InvalidateKey("voided").accepted);
  master.Kill();
  if (dies) {
    b.cache.reset();
    b.tier.reset();
  }
  for (RedisServer* replica : replicas) replica->Resume();
  set.AwaitSettled();
  ASSERT_NE(set.master_port(), master.port());
  ASSERT_EQ(set.master().Call({"EXISTS", kRecord}).text, "1") << "the invalidation was not lost";
  ASSERT_TRUE(a.ear->AwaitResets(1));
  TierAnswer answer;
  Await("an answer", [&] {
    answer = a.Ask("k");
    EXPECT_NE(answer.kind, Answer::kHit);
    return answer.kind == Answer::kGranted;
  });
  EXPECT_EQ(a.Fill("voided", voided.lease, "old").kind, Filled::kRefused) << "the lease came back with the replica";
  EXPECT_EQ(a.Fill("loading", loading.lease, "old").kind, Filled::kRefused);
  EXPECT_EQ(a.Fill("k", answer.lease, "new").kind, Filled::kStored);
  TierNode c(set.url(), options);
  for (TierNode* node : {&c, &b}) {
    if (dies && node == &b) continue;
    Await("the value", [&] { return (answer = node->Ask("k")).kind == Answer::kHit; });
    EXPECT_EQ(answer.record->bytes, "new");
  }
}

TEST_F(TierTopologyTest, Failover_LosesAnInvalidation_NothingOldIsServed) { LoseAnInvalidation(Options(), false); }

TEST_F(TierTopologyTest, Failover_LosesAnInvalidationWhoseProcessDies_NothingOldIsServed) {
  LoseAnInvalidation(Options(), true);
}

TEST_F(TierTopologyTest, Failover_AndBack_EachTimeANewReign) {
  SentinelSet set;
  TierNode a(set.url(), Options());
  TierNode b(set.url(), Options());
  for (int round = 1; round <= 2; ++round) {
    Await("a load", [&] {
      const TierAnswer answer = a.Ask("k");
      if (answer.kind != Answer::kGranted) return answer.kind == Answer::kHit;
      return a.Fill("k", answer.lease, "old").kind == Filled::kStored;
    });
    set.Failover();
    ASSERT_TRUE(a.ear->AwaitResets(round));
    ASSERT_TRUE(b.ear->AwaitResets(round));
    TierAnswer answer;
    Await("an answer", [&] { return (answer = b.Ask("k")).kind != Answer::kAway; });
    EXPECT_EQ(answer.kind, Answer::kGranted);
    EXPECT_EQ(a.Ask("k").kind, Answer::kBusy) << "one reign for both";
    b.cache->Fail("k", answer.lease);
    Await("trust", [&] { return a.trusted() && b.trusted(); });
  }
}

// Two servers that both take themselves for masters. The processes go from one to the other and back; the first one
// has kept its state, run id and incarnation.
TEST_F(TierTopologyTest, SplitBrain_ComingBackToAnOldReign_BeginsANewOne) {
  RedisServer first;
  RedisServer second({.replica_of = first.port()});
  TcpProxy proxy(first.port());
  TierNode a(RedisUrl(proxy.port()), Options());
  ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
  Await("replication", [&] { return second.Call({"EXISTS", kRecord}).text == "1"; });
  ASSERT_EQ(second.Call({"REPLICAOF", "NO", "ONE"}).text, "OK");
  proxy.SwitchTo(second.port());
  ASSERT_TRUE(a.ear->AwaitResets(1));
  // This process has never seen the first reign, but the state of the second server names it.
  TierNode b(RedisUrl(proxy.port()), Options());
  Await("acceptance", [&] { return b.InvalidateKey("k").accepted; });
  ASSERT_EQ(first.Call({"EXISTS", kRecord}).text, "1");
  a.cache.reset();
  a.tier.reset();
  proxy.SwitchTo(first.port());
  ASSERT_TRUE(b.ear->AwaitResets(1));
  TierAnswer answer;
  Await("an answer", [&] { return (answer = b.Ask("k")).kind != Answer::kAway; });
  EXPECT_EQ(answer.kind, Answer::kGranted);
}

// One server, but its clients reach another one after the other: the two connections of a process do not switch at
// once.
TEST_F(TierTopologyTest, ServerIsSwitchedAtRandom_EveryCallIsAnswered) {
  RedisServer first;
  RedisServer second;
  TcpProxy proxy(first.port());
  TierNode a(RedisUrl(proxy.port()), Options());
  for (int round = 0; round < 20; ++round) {
    proxy.SwitchTo(round % 2 == 0 ? second.port() : first.port());
    const std::string key = "k" + std::to_string(round);
    TierAnswer answer;
    Await("a grant", [&] { return (answer = a.Ask(key)).kind == Answer::kGranted; });
    EXPECT_EQ(a.Fill(key, answer.lease, "v").kind, Filled::kStored);
    EXPECT_TRUE(a.InvalidateKey(key).accepted);
  }
}

TEST_F(TierTopologyTest, Cluster_OneSlotServesATier) {
  RedisCluster cluster;
  TierNode a(cluster.url(), Options());
  TierNode b(cluster.url(), Options());
  ASSERT_EQ(a.Load("k", TierNode::Value{.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  EXPECT_EQ(b.Ask("k").kind, Answer::kHit);
  const TierInvalidated done = b.InvalidateTag("tag");
  ASSERT_TRUE(done.accepted);
  ASSERT_TRUE(a.ear->AwaitPosition(done.position));
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);

  const int slot = cluster.SlotOf("{test}");
  const size_t owner = cluster.OwnerOf(slot);
  const size_t other = (owner + 1) % RedisCluster::kMasters;
  ASSERT_EQ(a.Load("moves", "v").kind, Filled::kStored);
  cluster.MoveSlot(slot, owner, other);
  ASSERT_TRUE(a.ear->AwaitResets(1));
  ASSERT_TRUE(b.ear->AwaitResets(1));
  TierAnswer answer;
  Await("an answer", [&] { return (answer = a.Ask("moves")).kind != Answer::kAway; });
  EXPECT_EQ(answer.kind, Answer::kGranted) << "a slot that moves begins a new reign";
  EXPECT_EQ(a.Fill("moves", answer.lease, "v").kind, Filled::kStored);
  EXPECT_EQ(b.Ask("moves").kind, Answer::kHit);
}

// While a slot moves, Redis refuses scripts over keys of which only some have moved. After a second, the invalidation
// becomes one of all, which needs only the state and the journal.
TEST_F(TierTopologyTest, Cluster_SlotIsMoving_AnInvalidationBecomesOneOfAll) {
  RedisCluster cluster;
  RedisCacheTierOptions options = PatientTier();
  options.timeout = absl::Milliseconds(300);
  TierNode a(cluster.url(), options);
  TierNode b(cluster.url(), options);
  Await("a load", [&] {
    const TierAnswer answer = a.Ask("k");
    return answer.kind == Answer::kGranted && a.Fill("k", answer.lease, "old").kind == Filled::kStored;
  });
  Await("a journal", [&] { return a.InvalidateKey("other").accepted; });
  const int slot = cluster.SlotOf("{test}");
  const size_t owner = cluster.OwnerOf(slot);
  const size_t other = (owner + 1) % RedisCluster::kMasters;
  cluster.BeginMove(slot, owner, other);
  a.InvalidateKey("k");
  ASSERT_TRUE(a.cache->AwaitAll(a.tier->clock()->Now() + absl::Minutes(1)));
  Await("the report", [&] {
    for (const TierEar::Heard& heard : b.ear->heard()) {
      if (heard.kind == TierTarget::Kind::kAll && heard.position > 0) return true;
    }
    return false;
  });
  cluster.FinishMove(slot, owner, other);
  Await("an answer", [&] {
    const Answer kind = b.Ask("k").kind;
    EXPECT_NE(kind, Answer::kHit);
    return kind == Answer::kGranted;
  });
}

}  // namespace
}  // namespace stockade::testing
