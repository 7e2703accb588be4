// Failovers by Sentinels, and slots that move.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_cluster.h"
#include "redis/support/sentinel_set.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

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
  auto [a, b] = TwoNodes(set.url(), options);
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
  auto [a, b] = TwoNodes(set.url(), Options());
  for (int round = 1; round <= 2; ++round) {
    Await("a load", [&] { return a.Provide("k", "old"); });
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
  RedisServer second({.replica_of = first.Host()});
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

// What docs/CACHE.md does not promise: an old master that accepts writes loses them, also for the process that made
// them.
TEST_F(TierTopologyTest, SplitBrain_InvalidationAtTheOldMaster_IsLostForItsOwnProcess) {
  RedisServer first;
  RedisServer second({.replica_of = first.Host()});
  TcpProxy proxy(first.port());
  TierNode a(RedisUrl(proxy.port()), Options());
  ASSERT_EQ(second.Call({"REPLICAOF", "NO", "ONE"}).text, "OK");
  TierNode b(second.url(), Options());
  Await("a load", [&] { return b.Provide("k", "old"); });
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  proxy.SwitchTo(second.port());
  ASSERT_TRUE(a.ear->AwaitResets(1));
  TierAnswer answer;
  Await("an answer", [&] { return (answer = a.Ask("k")).kind != Answer::kAway; });
  ASSERT_EQ(answer.kind, Answer::kHit);
  EXPECT_EQ(answer.record->bytes, "old");
}

// What docs/CACHE.md does not promise: nothing that the process can reach knows of the successor any more.
TEST_F(TierTopologyTest, OldMasterIsBack_ItsSuccessorHasDied_AProcessThatNeverSawThatHasTheOldValue) {
  RedisServer first;
  RedisServer second({.replica_of = first.Host()});
  TcpProxy proxy(first.port());
  TierNode a(RedisUrl(proxy.port()), Options());
  ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
  Await("replication", [&] { return second.Call({"EXISTS", kRecord}).text == "1"; });
  proxy.Refuse();
  proxy.CloseAll();
  ASSERT_EQ(second.Call({"REPLICAOF", "NO", "ONE"}).text, "OK");
  ASSERT_TRUE(TierNode(second.url(), Options()).InvalidateKey("k").accepted);
  second.Kill();
  proxy.Accept();
  TierAnswer answer;
  Await("an answer", [&] { return (answer = a.Ask("k")).kind != Answer::kAway; });
  ASSERT_EQ(answer.kind, Answer::kHit);
  EXPECT_EQ(answer.record->bytes, "old");
  EXPECT_EQ(a.ear->resets(), 0);
}

// Without the right to INFO, which docs/CACHE.md does not promise, the second server goes on with the reign of the
// first one.
TEST_F(TierTopologyTest, Failover_LosesAnInvalidation_OnlyWithTheRightToInfoItIsNoticed) {
  for (const bool may_info : {true, false}) {
    SCOPED_TRACE(may_info);
    const std::vector<std::string> users = {std::string("alice on >secret ~* &* +@all") + (may_info ? "" : " -info")};
    const auto url_of = [](const RedisServer& server) { return "redis://alice:secret@" + server.Host(); };
    RedisServer first({.users = users});
    RedisServer second({.users = users, .replica_of = first.Host()});
    TierNode a(url_of(first), Options());
    ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
    Await("replication", [&] { return second.Call({"EXISTS", kRecord}).text == "1"; });
    ASSERT_EQ(second.Call({"REPLICAOF", "NO", "ONE"}).text, "OK");
    ASSERT_TRUE(a.InvalidateKey("k").accepted);
    TierNode b(url_of(second), Options());
    TierAnswer answer;
    Await("an answer", [&] { return (answer = b.Ask("k")).kind != Answer::kAway; });
    EXPECT_EQ(answer.kind, may_info ? Answer::kGranted : Answer::kHit);
  }
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
  auto [a, b] = TwoNodes(cluster.url(), Options());
  ASSERT_EQ(a.Load("k", {.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
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

// As managed servers may have it. A moved slot is not noticed: its journal goes on.
TEST_F(TierTopologyTest, Cluster_UserWithoutInfo_WorksAcrossAMove) {
  RedisCluster cluster({.server = {.users = {"alice on >secret ~* &* +@all -info"}}});
  std::string url = cluster.url();
  url.insert(url.find("://") + 3, "alice:secret@");
  RedisCacheTierOptions options = Options();
  auto [a, b] = TwoNodes(url, options);
  AwaitSubscribed(a);
  const int slot = cluster.SlotOf("{test}");
  for (int round = 0; round < 2; ++round) {
    Await("a load", [&] { return a.Provide("k", "v"); });
    Await("the value", [&] { return b.Ask("k").kind == Answer::kHit; });
    const uint64_t messages = a.tier->Stats().invalidation_messages;
    Await("a message", [&] {
      b.InvalidateKey("k");
      return a.tier->Stats().invalidation_messages > messages;
    });
    ASSERT_TRUE(b.AwaitAccepted());
    const TierAnswer answer = a.Ask("k");
    EXPECT_EQ(answer.kind, Answer::kGranted);
    a.cache->Fail("k", answer.lease);
    if (round > 0) break;
    const size_t owner = cluster.OwnerOf(slot);
    cluster.MoveSlot(slot, owner, (owner + 1) % RedisCluster::kMasters);
  }
}

// Where channels belong to no slot, as in Redis 6.2 and without the right to PUBSUB, PUBLISH counts the subscribers of
// its own node. So it cannot tell whether the process that loads is alive.
TEST_F(TierTopologyTest, Cluster_SubscriptionsAreAtAnotherNode_LeasesAreNotShortened) {
  RedisCluster cluster({.server = {.users = {"alice on >secret ~* &* +@all -pubsub"}}});
  RedisServer& owner = cluster.NodeOf("{test}");
  const size_t other = (cluster.OwnerOf(cluster.SlotOf("{test}")) + 1) % RedisCluster::kMasters;
  const std::string url = "redis+cluster://alice:secret@127.0.0.1:" + std::to_string(cluster.node(other).port());
  auto [a, b] = TwoNodes(url, Options());
  TierNode sharded(cluster.url(), Options());
  AwaitSubscribed(a, b, sharded);
  ASSERT_EQ(owner.Call({"PUBSUB", "CHANNELS"}).items.size(), 0u);
  const auto is_kept = [&](TierNode& loader, TierNode& waiter) {
    const TierAnswer loading = loader.Ask("k");
    ASSERT_EQ(loading.kind, Answer::kGranted);
    for (int asked = 0; asked < 3; ++asked) ASSERT_EQ(waiter.Ask("k").kind, Answer::kBusy);
    EXPECT_GT(std::stoll(owner.Call({"PTTL", kLease}).text), absl::ToInt64Milliseconds(Options().lease) / 2);
    loader.cache->Fail("k", loading.lease);
    Await("the end of the lease", [&] { return owner.Call({"EXISTS", kLease}).text == "0"; });
  };
  is_kept(a, b);
  is_kept(a, sharded);
  is_kept(sharded, a);
}

// While a slot moves, Redis refuses scripts over keys of which only some have moved. After a second, the invalidation
// becomes one of all, which needs only the state and the journal.
TEST_F(TierTopologyTest, Cluster_SlotIsMoving_AnInvalidationBecomesOneOfAll) {
  RedisCluster cluster;
  auto [a, b] = TwoNodes(cluster.url(), PatientTier([](auto& o) { o.timeout = absl::Milliseconds(300); }));
  Await("a load", [&] { return a.Provide("k", "old"); });
  Await("a journal", [&] { return a.InvalidateKey("other").accepted; });
  const int slot = cluster.SlotOf("{test}");
  const size_t owner = cluster.OwnerOf(slot);
  const size_t other = (owner + 1) % RedisCluster::kMasters;
  cluster.BeginMove(slot, owner, other);
  a.InvalidateKey("k");
  ASSERT_TRUE(a.AwaitAccepted());
  Await("the report", [&] { return std::ranges::count(b.ear->lines(), "all") > 0; });
  cluster.FinishMove(slot, owner, other);
  Await("an answer", [&] {
    const Answer kind = b.Ask("k").kind;
    EXPECT_NE(kind, Answer::kHit);
    return kind == Answer::kGranted;
  });
}

// Threads of three processes read and write while the slot goes round the cluster, key by key. No question is answered
// by what was invalidated before it, and the messages follow the slot.
TEST_F(TierTopologyTest, Cluster_SlotMovesUnderLoad_NothingOldIsServed) {
  constexpr size_t kKeys = 8;
  RedisCluster cluster;
  RedisCacheTierOptions options = Options();
  options.lease = absl::Milliseconds(300);
  std::vector<std::unique_ptr<TierNode>> nodes;
  for (int n = 0; n < 3; ++n) nodes.push_back(std::make_unique<TierNode>(cluster.url(), options));
  std::array<std::atomic<int>, kKeys> database{};
  std::array<std::atomic<int>, kKeys> floor{};  // What an accepted invalidation has made certain.
  std::atomic<int64_t> hits{0};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      TierNode& node = *nodes[thread % nodes.size()];
      std::mt19937_64 random(Seed() + thread);
      while (!stop) {
        const size_t at = random() % kKeys;
        const std::string key = "k" + std::to_string(at);
        if (random() % 8 != 0) {
          const int least = floor[at];
          const TierAnswer answer = node.Ask(key);
          if (answer.kind == Answer::kHit) {
            EXPECT_GE(std::stoi(answer.record->bytes), least) << key;
            ++hits;
          } else if (answer.kind == Answer::kGranted) {
            node.Fill(key, answer.lease, std::to_string(database[at]));
          }
          continue;
        }
        const int version = ++database[at];
        if (!node.InvalidateKey(key).accepted) continue;
        int least = floor[at];
        while (least < version && !floor[at].compare_exchange_weak(least, version)) {
        }
      }
    });
  }
  const int slot = cluster.SlotOf("{test}");
  const int64_t moves = Scaled(4, 40);
  for (int64_t move = 0; move < moves; ++move) {
    const int64_t before = hits;
    Await("hits", [&] { return hits > before + 100; });
    const size_t owner = cluster.OwnerOf(slot);
    const size_t other = (owner + 1) % RedisCluster::kMasters;
    cluster.BeginMove(slot, owner, other);
    cluster.MigrateKey(move % 2 == 0 ? kState : kJournal, owner, other);
    cluster.MigrateKey("sc1:{test}:v:products:product/1:k0", owner, other);
    cluster.FinishMove(slot, owner, other);
  }
  stop = true;
  threads.clear();
  for (const auto& node : nodes) ASSERT_TRUE(node->AwaitAccepted());
  for (size_t at = 0; at < kKeys; ++at) {
    for (const auto& node : nodes) {
      TierAnswer answer;
      Await("an answer", [&] { return (answer = node->Ask("k" + std::to_string(at))).kind != Answer::kAway; });
      EXPECT_TRUE(answer.kind != Answer::kHit || std::stoi(answer.record->bytes) == database[at]);
      if (answer.kind == Answer::kGranted) node->cache->Fail("k" + std::to_string(at), answer.lease);
    }
  }
  const uint64_t messages = nodes[0]->tier->Stats().invalidation_messages;
  Await("a message from where the slot is now", [&] {
    nodes[1]->InvalidateKey("k0");
    return nodes[0]->tier->Stats().invalidation_messages > messages;
  });
}

}  // namespace
}  // namespace stockade::testing
