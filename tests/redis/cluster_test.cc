#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "connect.h"
#include "key_slot.h"
#include "redis/support/connect_to.h"
#include "redis/support/ear.h"
#include "redis/support/raw_peer.h"
#include "redis/support/redis_cluster.h"
#include "router.h"
#include "status.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "stockade/redis/redis_url.h"
#include "support/await.h"
#include "support/scale.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::ConnectPatiently;
using testing::ConnectTo;
using testing::InfoField;
using testing::kFailoverTimeout;
using testing::RawPeer;
using testing::RedisCluster;
using testing::RedisServer;
using testing::Scaled;

constexpr int kFooSlot = 12'182;  // Of "foo", which the third node serves at first.

class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

std::string Show(const absl::StatusOr<RedisReply>& reply) {
  return reply.ok() ? reply->ToString() : reply.status().ToString();
}

std::string Answer(RedisClient& client, const RedisCommand& command) { return Show(client.Run(command)); }

RedisCommand Set(const std::string& key, const std::string& value) {
  return RedisCommand("SET").Key(key).Arg(value).Idempotent();
}
RedisCommand Get(const std::string& key) { return RedisCommand("GET").Key(key).Idempotent(); }

// Increments counters of all nodes, one after another, on several threads, and knows how often it did.
class Counters {
 public:
  static constexpr int kKeys = 30;

  Counters(RedisClient& client, bool idempotent) {
    for (int t = 0; t < 4; ++t) threads_.emplace_back([this, &client, idempotent] { Count(client, idempotent); });
    AwaitMore(100);
  }
  ~Counters() { End(); }

  void AwaitMore(int more) {
    const int until = counted_ + more;
    Await("the counters", [&] { return counted_ >= until || ended_ > 0; });
  }
  // Empty, or the first error.
  std::string End() {
    ending_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
    return error_;
  }
  int counted() const { return counted_; }

 private:
  void Count(RedisClient& client, bool idempotent) {
    for (int i = 0; !ending_; ++i) {
      RedisCommand command = RedisCommand("INCR").Key(Concat("counter", i % kKeys));
      if (idempotent) command.Idempotent();
      const absl::StatusOr<RedisReply> reply = client.Run(command);
      if (!reply.ok()) {
        if (ended_++ == 0) error_ = reply.status().ToString();
        return;
      }
      ++counted_;
    }
  }

  std::atomic<bool> ending_ = false;
  std::atomic<int> ended_ = 0;
  std::atomic<int> counted_ = 0;
  std::string error_;  // Written by the first that ends; read once all have.
  std::vector<std::thread> threads_;
};

TEST_F(ClusterTest, KeySlot_OfRandomKeys_IsWhatRedisSays) {
  RedisServer node({.cluster = true});
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    std::string key(random() % 24, '\0');
    // Braces often, so that hash tags come up; and any byte.
    for (char& c : key) c = random() % 4 == 0 ? "{}"[random() % 2] : static_cast<char>(random());
    const testing::RawReply slot = node.Call({"CLUSTER", "KEYSLOT", key});
    ASSERT_EQ(slot.text, Concat(redis_internal::KeySlot(key))) << ::testing::PrintToString(key);
  }
}

TEST_F(ClusterTest, OnlyReads_OfEveryCommandOfRedis_IsTrueOfNoneThatWrites) {
  RedisServer server;
  int known = 0;
  std::string unknown;
  for (const testing::RawReply& command : server.Call({"COMMAND"}).items) {
    const std::string& name = command.items.at(0).text;
    bool writes = false, reads = false;
    for (const testing::RawReply& flag : command.items.at(2).items) {
      writes = writes || flag == "write";
      reads = reads || flag == "readonly";
    }
    const bool only_reads = redis_internal::OnlyReads(name);
    EXPECT_FALSE(only_reads && writes) << name;
    known += only_reads ? 1 : 0;
    if (reads && !only_reads) unknown += " " + name;
  }
  EXPECT_GT(known, 80);
  RecordProperty("readonly_but_refused", unknown);
}

// INFO on the connection that the command takes.
std::string RunIdSeen(const absl::StatusOr<RedisReply>& info) {
  return info.ok() ? InfoField(info->text(), "run_id") : info.status().ToString();
}
RedisCommand InfoAt(const std::string& key) { return RedisCommand("INFO").Arg("server").RouteBy(key); }

TEST_F(ClusterTest, ServerOf_EachKey_IsTheNodeOfItsSlot_BoundCommandsRunThereOnly) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const std::string keys[] = {"foo", "bar", "c"};  // A node each.
  std::vector<RedisServerIdentity> servers;
  for (const std::string& key : keys) {
    servers.push_back(client->ServerOf(key).value());
    EXPECT_EQ(servers.back().run_id.value(), cluster.NodeOf(key).Info("run_id"));
    EXPECT_EQ(RunIdSeen(client->Run(InfoAt(key), {.on_server = servers.back().run_id.value()})),
              servers.back().run_id.value());
  }
  EXPECT_NE(servers[0].generation, servers[1].generation);
  ASSERT_NE(servers[0].run_id.value(), servers[1].run_id.value());
  ASSERT_NE(servers[2].run_id.value(), servers[1].run_id.value());
  std::vector<RedisCommand> sets;
  for (const std::string& key : keys) sets.push_back(Set(key, "v"));
  const auto replies = client->RunMany(sets, {.on_server = servers[1].run_id.value()});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(replies[i].status().code(), i == 1 ? absl::StatusCode::kOk : absl::StatusCode::kAborted);
    EXPECT_EQ(cluster.NodeOf(keys[i]).Call({"GET", keys[i]}).type, i == 1 ? '$' : '_');
  }
}

TEST_F(ClusterTest, OnServer_SlotMovesOrIsOnItsWay_RedirectedCommandIsAborted) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const size_t from = cluster.OwnerOf(kFooSlot);
  const size_t to = (from + 1) % 3;
  const RedisServerIdentity before = client->ServerOf("foo").value();
  const RedisCallOptions bound = {.on_server = before.run_id.value()};
  EXPECT_TRUE(client->Run(Set("foo", "1"), bound).ok());
  cluster.BeginMove(kFooSlot, from, to);
  EXPECT_TRUE(client->Run(Set("foo", "2"), bound).ok());
  cluster.MigrateKey("foo", from, to);
  // ASK.
  EXPECT_TRUE(absl::IsAborted(client->Run(Set("foo", "3"), bound).status()));
  EXPECT_TRUE(absl::IsAborted(client->RunFuture(Set("foo", "3"), bound).get().status()));
  EXPECT_EQ(Answer(*client, Get("foo")), "\"2\"");
  cluster.FinishMove(kFooSlot, from, to);
  // MOVED, then the corrected map.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsAborted(client->Run(Set("foo", "4"), bound).status()));
  EXPECT_EQ(Answer(*client, Get("foo")), "\"2\"");
  const RedisServerIdentity after = client->ServerOf("foo").value();
  EXPECT_EQ(after.run_id.value(), cluster.node(to).Info("run_id"));
  EXPECT_NE(after.generation, before.generation);
  EXPECT_TRUE(client->Run(Set("foo", "5"), {.on_server = after.run_id.value()}).ok());
}

TEST_F(ClusterTest, OnServer_NodeFailsOver_BoundCommandsThatWaitAreAborted) {
  RedisCluster cluster({.replicas = true});
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const std::string run_id = client->ServerOf("foo").value().run_id.value();
  ASSERT_EQ(RunIdSeen(client->Run(InfoAt("foo"), {.on_server = run_id})), run_id);
  cluster.NodeOf("foo").Kill();
  const RedisCallOptions bound = {.on_server = run_id};
  std::vector<std::future<absl::StatusOr<RedisReply>>> waiting;
  for (int i = 0; i < 10; ++i) waiting.push_back(client->RunFuture(Set("foo", "bound"), bound));
  const absl::Status status = client->Run(Set("foo", "bound"), bound).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  for (auto& future : waiting) {
    const absl::Status waited = future.get().status();
    EXPECT_TRUE(absl::IsAborted(waited)) << waited;
  }
  const absl::StatusOr<RedisServerIdentity> after = client->ServerOf("foo", kFailoverTimeout);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE(after->run_id.value(), run_id);
  EXPECT_EQ(Answer(*client, Get("foo")), "(nil)");
}

TEST_F(ClusterTest, Transaction_OfTwoSlots_IsInvalidArgument) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const RedisCommand commands[] = {Set("foo", "1"), RedisCommand("PING"), Set("bar", "1")};
  const absl::Status status = client->RunTransaction(commands).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("the keys 'foo' (slot 12182) and 'bar' (slot 5061) are in different slots"),
            std::string::npos)
      << status;
  EXPECT_EQ(Answer(*client, Get("foo")), "(nil)");
}

TEST_F(ClusterTest, Transaction_SlotMovesStepByStep_RunsAsAWholeWhereItsKeysAre) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const size_t from = cluster.OwnerOf(kFooSlot);
  const size_t to = (from + 1) % 3;
  const RedisCommand adds[] = {RedisCommand("INCR").Key("foo"), RedisCommand("PING"),
                               RedisCommand("INCR").Key("{foo}2")};
  const RedisCommand transaction = RedisCommand::Transaction(adds);
  EXPECT_EQ(Answer(*client, transaction), "[1, PONG, 1]");
  cluster.BeginMove(kFooSlot, from, to);
  EXPECT_EQ(Answer(*client, transaction), "[2, PONG, 2]");
  cluster.MigrateKey("foo", from, to);
  // Half of it is there: neither node runs it.
  const auto once = [&] {
    return RedisErrorCode(client->Run(transaction, {.timeout = absl::Minutes(1), .retry = false}).status());
  };
  EXPECT_EQ(once(), "ASK");
  auto waits = client->RunFuture(transaction);
  EXPECT_FALSE(client->Run(transaction, {.timeout = absl::Milliseconds(200)}).ok());
  EXPECT_EQ(cluster.node(from).Call({"GET", "{foo}2"}), "2");
  cluster.MigrateKey("{foo}2", from, to);
  // ASK.
  EXPECT_EQ(Show(waits.get()), "[3, PONG, 3]");
  EXPECT_EQ(Answer(*client, transaction), "[4, PONG, 4]");
  EXPECT_EQ(once(), "ASK");
  cluster.FinishMove(kFooSlot, from, to);
  EXPECT_EQ(once(), "MOVED");
  EXPECT_EQ(once(), "") << "it has learnt where the slot is";
  EXPECT_EQ(cluster.node(to).Call({"GET", "foo"}), "5");
  // MOVED.
  EXPECT_EQ(Answer(*client, transaction), "[6, PONG, 6]");
  EXPECT_EQ(cluster.node(to).Call({"GET", "foo"}), "6");
}

TEST_F(ClusterTest, ReadFromReplica_OfEachNode_IsServedByItsReplica_OrByTheMaster) {
  RedisCluster cluster({.replicas = true});
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const RedisCallOptions from_replica = {.read_from = RedisReadFrom::kReplica};
  const auto calls = [&](size_t node) {
    const std::string stats = InfoField(cluster.node(node).Call({"INFO", "commandstats"}).text, "cmdstat_strlen");
    return stats.empty() ? 0 : std::stoll(stats.substr(std::string("calls=").size()));
  };
  const auto read = [&](const std::string& key) { return client->Run(RedisCommand("STRLEN").Key(key), from_replica); };
  for (const std::string key : {"foo", "bar", "c"}) {
    ASSERT_TRUE(client->Run(Set(key, "value")).ok());
    const size_t master = cluster.OwnerOf(cluster.SlotOf(key));
    Await("a read from the replica", [&] {
      const absl::StatusOr<RedisReply> length = read(key);
      EXPECT_TRUE(length.ok()) << length.status();
      return length.ok() && length->integer() == 5 && calls(master + 3) > 0;
    });
    const int64_t at_master = calls(master);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(read(key).value().integer(), 5);
    EXPECT_EQ(calls(master), at_master);
  }
  const absl::Status write = client->Run(Set("foo", "x"), from_replica).status();
  EXPECT_EQ(write.code(), absl::StatusCode::kInvalidArgument) << write;
  const RedisCommand many[] = {RedisCommand("STRLEN").Key("foo"), RedisCommand("STRLEN").Key("bar"),
                               RedisCommand("SET").Key("foo").Arg(1)};
  const auto replies = client->RunMany(many, from_replica);
  EXPECT_EQ(replies[0].value().integer() + replies[1].value().integer(), 10);
  EXPECT_EQ(replies[2].status().code(), absl::StatusCode::kInvalidArgument);
  const size_t master = cluster.OwnerOf(kFooSlot);
  const int64_t at_master = calls(master);
  cluster.node(master + 3).Kill();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(read("foo").value().integer(), 5);
  EXPECT_GT(calls(master), at_master);
}

TEST_F(ClusterTest, ReadFromReplica_SlotMovesAndNodeFailsOver_GoesOn) {
  RedisCluster cluster({.replicas = true});
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Run(Set("foo", "value")).ok());
  std::atomic<bool> ending = false;
  std::atomic<int64_t> reads = 0;
  std::thread reader([&] {
    while (!ending) {
      const absl::StatusOr<RedisReply> got =
          client->Run(RedisCommand("STRLEN").Key("foo"), {.read_from = RedisReadFrom::kReplica});
      EXPECT_TRUE(got.ok()) << got.status();
      ++reads;
    }
  });
  const size_t from = cluster.OwnerOf(kFooSlot);
  const size_t to = (from + 1) % 3;
  cluster.MoveSlot(kFooSlot, from, to);
  cluster.node(to).Kill();
  cluster.AwaitSettled();
  const int64_t before = reads;
  Await("reads", [&] { return reads > before + 100; });
  ending = true;
  reader.join();
  EXPECT_EQ(Answer(*client, RedisCommand("STRLEN").Key("foo")), "5");
}

TEST_F(ClusterTest, Keys_OfAllNodes_OneByOneTogetherAndAsync_ReachTheirNodes) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url() + "?client_name=spread");
  ASSERT_NE(client, nullptr);
  constexpr int kKeys = 300;
  std::vector<RedisCommand> gets;
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(Answer(*client, Set(Concat("key", i), Concat(i))), "OK");
    gets.push_back(Get(Concat("key", i)));
  }
  const std::vector<absl::StatusOr<RedisReply>> got = client->RunMany(gets);
  for (int i = 0; i < kKeys; ++i) EXPECT_EQ(Show(got[i]), Concat("\"", i, "\""));
  std::vector<std::future<absl::StatusOr<RedisReply>>> futures;
  for (const RedisCommand& get : gets) futures.push_back(client->RunFuture(get));
  for (int i = 0; i < kKeys; ++i) EXPECT_EQ(Show(futures[i].get()), Concat("\"", i, "\""));
  for (size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_GT(std::stoi(cluster.node(i).Call({"DBSIZE"}).text), kKeys / 5);
    // One connection a node, named on each.
    const std::string clients = cluster.node(i).Call({"CLIENT", "LIST", "TYPE", "NORMAL"}).text;
    const size_t named = clients.find("name=spread");
    EXPECT_NE(named, std::string::npos);
    EXPECT_EQ(clients.find("name=spread", named + 1), std::string::npos) << clients;
  }
}

TEST_F(ClusterTest, SeveralKeys_OfOneTagAndOfTwoSlots_RunOrAreRefusedByName) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(Answer(*client, RedisCommand("MSET").Key("{foo}1").Arg("a").Key("{foo}2").Arg("b")), "OK");
  EXPECT_EQ(Answer(*client, RedisCommand("MGET").Key("{foo}1").Key("{foo}2")), "[\"a\", \"b\"]");
  const absl::Status refused = client->Run(RedisCommand("MGET").Key("{foo}1").Key("{foo}2").Key("bar")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(refused.message()).substr(0, 77),
            "MGET: the keys '{foo}1' (slot 12182) and 'bar' (slot 5061) are in different s");
}

TEST_F(ClusterTest, NoKeys_AnyCommand_GoesToOneNode) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const std::string first = Answer(*client, RedisCommand("CLUSTER").Arg("MYID"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Answer(*client, RedisCommand("CLUSTER").Arg("MYID")), first);
  // While that can be reached.
  for (size_t i = 0; i < cluster.size(); ++i) {
    if (first.find(cluster.node(i).Call({"CLUSTER", "MYID"}).text) != std::string::npos) cluster.node(i).Kill();
  }
  Await("another node", [&] {
    const absl::StatusOr<RedisReply> id =
        client->Run(RedisCommand("CLUSTER").Arg("MYID").Idempotent(), {.timeout = absl::Milliseconds(300)});
    return id.ok() && id->ToString() != first;
  });
}

TEST_F(ClusterTest, NoKeys_RoutedByAKey_GoesToTheNodeOfTheKey) {
  RedisCluster cluster;
  const std::unique_ptr<RedisClient> client = ConnectPatiently(cluster.url());
  const RedisCommand who = RedisCommand("CLUSTER").Arg("MYID");
  for (const std::string key : {"foo", "bar", "a", "{foo}b"}) {
    const std::string there = cluster.NodeOf(key).Call({"CLUSTER", "MYID"}).text;
    EXPECT_EQ(Answer(*client, RedisCommand(who).RouteBy(key)), Concat("\"", there, "\"")) << key;
  }
}

TEST_F(ClusterTest, SlotMoved_SinceTheMap_CommandsFollow) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(Answer(*client, Set("foo", "v")), "OK");
  cluster.MoveSlot(kFooSlot, 2, 0);
  EXPECT_EQ(Answer(*client, Get("foo")), "\"v\"");
  EXPECT_EQ(Answer(*client, RedisCommand("INCR").Key("{foo}n")), "1");
  EXPECT_EQ(Show(client->RunFuture(Get("foo")).get()), "\"v\"");
  EXPECT_EQ(cluster.node(0).Call({"EXISTS", "foo", "{foo}n"}), "2");
}

TEST_F(ClusterTest, SlotsMoved_WhileCounting_NoCommandFailsOrRunsTwice) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  Counters counters(*client, false);
  for (int i = 0; i < std::min<int>(Counters::kKeys, static_cast<int>(Scaled(10, 30))); ++i) {
    const int slot = cluster.SlotOf(Concat("counter", i));
    const size_t from = cluster.OwnerOf(slot);
    cluster.MoveSlot(slot, from, (from + 1) % 3);
  }
  counters.AwaitMore(100);
  EXPECT_EQ(counters.End(), "");
  int sum = 0;
  for (int i = 0; i < Counters::kKeys; ++i) {
    const std::string key = Concat("counter", i);
    sum += std::stoi(cluster.NodeOf(key).Call({"GET", key}).text);
  }
  EXPECT_EQ(sum, counters.counted());
}

TEST_F(ClusterTest, SlotHalfMoved_KeysOfBothHalves_AreServedByAsking) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const RedisScript incr("return redis.call('INCR', KEYS[1])");
  std::vector<RedisCommand> gets;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(Answer(*client, Set(Concat("{foo}", i), Concat(i))), "OK");
    gets.push_back(Get(Concat("{foo}", i)));
  }
  cluster.BeginMove(kFooSlot, 2, 0);
  for (int i = 0; i < 20; i += 2) cluster.MigrateKey(Concat("{foo}", i), 2, 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Answer(*client, gets[i]), Concat("\"", i, "\""));
  const std::vector<absl::StatusOr<RedisReply>> together = client->RunMany(gets);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Show(together[i]), Concat("\"", i, "\""));
  // A script that the asked node does not know: asked again, whole.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Answer(*client, RedisCommand(incr, {Concat("{foo}", i)})), Concat(i + 1));
  // A new key is made where the slot goes.
  EXPECT_EQ(Answer(*client, Set("{foo}new", "v")), "OK");
  EXPECT_EQ(cluster.node(0).Call({"CLUSTER", "COUNTKEYSINSLOT", Concat(kFooSlot)}), "11");
  cluster.FinishMove(kFooSlot, 2, 0);
  EXPECT_EQ(Answer(*client, Get("{foo}new")), "\"v\"");
}

TEST_F(ClusterTest, SlotHalfMoved_KeysOfBothHalvesInOne_WaitUntilItHasMoved) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  ASSERT_EQ(Answer(*client, RedisCommand("MSET").Key("{foo}1").Arg("a").Key("{foo}2").Arg("b")), "OK");
  cluster.BeginMove(kFooSlot, 2, 0);
  cluster.MigrateKey("{foo}1", 2, 0);
  const RedisCommand both = RedisCommand("MGET").Key("{foo}1").Key("{foo}2");
  auto later = client->RunFuture(both);
  absl::StatusOr<RedisReply> soon;
  Await("the last attempt to be answered in time", [&] {
    soon = client->Run(both, {.timeout = absl::Seconds(2)});
    return !absl::IsDeadlineExceeded(soon.status());
  });
  EXPECT_EQ(RedisErrorCode(soon.status()), "TRYAGAIN") << soon.status();
  EXPECT_EQ(soon.status().code(), absl::StatusCode::kUnavailable);
  cluster.FinishMove(kFooSlot, 2, 0);
  EXPECT_EQ(Show(later.get()), "[\"a\", \"b\"]");
}

TEST_F(ClusterTest, Scripts_OnAllNodesAndForgottenByOne_RunWhereTheirKeysAre) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  const RedisScript put("return redis.call('SET', KEYS[1], ARGV[1])");
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(Answer(*client, RedisCommand(put, {Concat("key", i)}).Arg(round)), "OK");
      EXPECT_EQ(cluster.NodeOf(Concat("key", i)).Call({"GET", Concat("key", i)}), Concat(round));
    }
    cluster.node(1).Call({"SCRIPT", "FLUSH"});
  }
}

TEST_F(ClusterTest, Node_KilledAndRestarted_IsUnavailableAndThenBack) {
  RedisCluster cluster({.server = {.appendonly = true}, .full_coverage = false});
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  ASSERT_EQ(Answer(*client, Set("foo", "v")), "OK");
  ASSERT_EQ(Answer(*client, Set("bar", "v")), "OK");
  cluster.node(2).Kill();
  const Instant before = Clock::System()->Now();
  const absl::StatusOr<RedisReply> gone = client->Run(Get("foo"), {.timeout = absl::Milliseconds(500)});
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kUnavailable) << gone.status();
  EXPECT_LT(Clock::System()->Now() - before, absl::Seconds(10));
  EXPECT_EQ(Answer(*client, Get("bar")), "\"v\"");
  auto waits = client->RunFuture(Get("foo"));
  cluster.node(2).Restart();
  EXPECT_EQ(Show(waits.get()), "\"v\"");
}

TEST_F(ClusterTest, Cluster_Down_IsUnavailableInTime) {
  RedisCluster cluster;
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  cluster.node(0).Kill();
  Await("the cluster to be down", [&] {
    return InfoField(cluster.node(1).Call({"CLUSTER", "INFO"}).text, "cluster_state") == "fail" &&
           InfoField(cluster.node(2).Call({"CLUSTER", "INFO"}).text, "cluster_state") == "fail";
  });
  absl::StatusOr<RedisReply> down;
  Await("the last attempt to be answered in time", [&] {
    down = client->Run(Get("foo"), {.timeout = absl::Seconds(2)});
    return !absl::IsDeadlineExceeded(down.status());
  });
  EXPECT_EQ(down.status().code(), absl::StatusCode::kUnavailable) << down.status();
  EXPECT_EQ(RedisErrorCode(down.status()), "CLUSTERDOWN") << down.status();
  auto waits = client->RunFuture(Get("foo"));
  cluster.node(0).Restart();
  EXPECT_EQ(Show(waits.get()), "(nil)");
}

TEST_F(ClusterTest, Failover_OfAKilledMaster_CommandsGoOnAtItsReplica) {
  RedisCluster cluster({.replicas = true});
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  ASSERT_EQ(Answer(*client, Set("foo", "v")), "OK");
  Await("the replica", [&] { return cluster.node(5).Info("master_link_status") == "up"; });
  Counters counters(*client, true);
  cluster.node(2).Kill();
  // Waits, unsent, for a server that never comes back.
  EXPECT_EQ(Answer(*client, Set("foo", "w")), "OK");
  EXPECT_EQ(cluster.node(5).Info("role"), "master");
  counters.AwaitMore(100);
  EXPECT_EQ(counters.End(), "");
}

TEST_F(ClusterTest, Failover_OfAMasterThatHangs_CommandsGoOnAtItsReplica) {
  RedisCluster cluster({.replicas = true});
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  ASSERT_EQ(Answer(*client, Set("foo", "v")), "OK");
  cluster.node(2).Pause();
  // More than are sent before a reply is there: some hang at the server, some wait to be sent.
  std::vector<std::future<absl::StatusOr<RedisReply>>> sets;
  for (int i = 0; i < 50; ++i) sets.push_back(client->RunFuture(Set("foo", Concat(i))));
  for (auto& set : sets) EXPECT_EQ(Show(set.get()), "OK");
  EXPECT_EQ(cluster.node(5).Info("role"), "master");
}

TEST_F(ClusterTest, Failover_Planned_NoOutcomeIsUnknown) {
  RedisCluster cluster({.replicas = true});
  const auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  cluster.AwaitSettled();
  Counters counters(*client, false);
  EXPECT_EQ(cluster.node(5).Call({"CLUSTER", "FAILOVER"}), "OK");
  Await("the failover", [&] { return cluster.node(5).Info("role") == "master"; });
  counters.AwaitMore(100);
  EXPECT_EQ(counters.End(), "");
  cluster.AwaitSettled();
  int sum = 0;
  for (int i = 0; i < Counters::kKeys; ++i) {
    const std::string key = Concat("counter", i);
    sum += std::stoi(cluster.NodeOf(key).Call({"GET", key}).text);
  }
  EXPECT_EQ(sum, counters.counted());
}

TEST_F(ClusterTest, Connect_WithoutWaiting_CommandsAndChannelsWaitForTheFirstNode) {
  RedisCluster cluster;
  for (size_t n = 0; n < cluster.size(); ++n) cluster.node(n).Kill();
  const auto client = ConnectTo(cluster.url(), {.wait_for_connection = false, .max_backoff = absl::Milliseconds(100)});
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->Run(Get("foo"), {.timeout = absl::Milliseconds(100)}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_FALSE(client->ServerOf("foo", absl::Milliseconds(1)).ok());
  EXPECT_FALSE(client->sharded_channels());
  testing::Ear ear;
  const absl::StatusOr<RedisSubscription> channel = client->Subscribe("foo", ear.subscriber());
  ASSERT_TRUE(channel.ok()) << channel.status();
  auto set = client->RunFuture(Set("foo", "1"), {.timeout = absl::Minutes(1)});
  // The node that commands are sent to at first stays away.
  cluster.node(1).Restart();
  cluster.node(2).Restart();
  EXPECT_TRUE(ear.AwaitConfirmations(1));
  EXPECT_TRUE(client->sharded_channels());
  cluster.node(0).Restart();
  cluster.AwaitSettled();
  EXPECT_EQ(Show(set.get()), "OK");
  EXPECT_EQ(Answer(*client, RedisCommand("SPUBLISH").Key("foo").Arg("hello")), "1");
  EXPECT_TRUE(ear.AwaitMessage("hello"));
}

TEST_F(ClusterTest, Channels_OfSlots_AreAtHomeAtTheirOwner) {
  RedisCluster cluster;
  const absl::StatusOr<RedisUrl> url = ParseRedisUrl(cluster.url());
  ASSERT_TRUE(url.ok()) << url.status();
  const RedisOptions options;
  base_internal::TimerQueue timers(Clock::System());
  metrics_internal::ComponentMetrics metrics;
  const std::unique_ptr<redis_internal::Router> router =
      redis_internal::MakeRouter(*url, options, &timers, &metrics).value();
  std::atomic<int> changes = 0;
  ASSERT_EQ(router->Start(/*wait=*/true), absl::OkStatus());
  router->SetOnTopologyChange([&] { ++changes; });
  EXPECT_TRUE(router->sharded_channels());
  absl::StatusOr<std::string> home = router->ChannelHome("foo");
  ASSERT_TRUE(home.ok()) << home.status();
  EXPECT_EQ(*home, Concat("127.0.0.1:", cluster.node(2).port()));
  const auto link = router->ConnectForChannel("foo", Clock::System()->Now() + kFailoverTimeout);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ((*link)->endpoint().ToString(), *home);

  // Nothing is run: the time brings the new map.
  cluster.MoveSlot(kFooSlot, 2, 0);
  Await("the hook", [&] { return changes > 0; });
  home = router->ChannelHome("foo");
  ASSERT_TRUE(home.ok()) << home.status();
  EXPECT_EQ(*home, Concat("127.0.0.1:", cluster.node(0).port()));
  router->Stop();
}

// The peer calls itself localhost, and the second one 127.0.0.1.
TEST_F(ClusterTest, RedirectedToAHostThatIsNotAllowed_NamesIt_AndNothingIsConnected) {
  const RawPeer other([](size_t, const std::string& command) { return command == "PING" ? "+PONG\r\n" : "+OK\r\n"; });
  const std::string there = Concat("127.0.0.1:", other.port());
  for (const std::string word : {"MOVED", "ASK"}) {
    std::atomic<uint16_t> port = 0;
    const RawPeer node([&](size_t, const std::string& command) {
      if (command == "PING") return std::string("+PONG\r\n");
      if (command == "INFO server") return std::string("$-1\r\n");
      if (command == "CLUSTER INFO") return std::string("+cluster_state:ok\r\n");
      if (command == "CLUSTER SLOTS")
        return Concat("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:", port.load(), "\r\n");
      if (command == "GET foo") return Concat("-", word, " ", kFooSlot, " ", there, "\r\n");
      return std::string("+OK\r\n");
    });
    port = node.port();
    const std::string url = Concat("redis+cluster://localhost:", node.port());
    const auto client = ConnectTo(url, {.allowed_hosts = {".example.com", "10.0.0.1"}});
    ASSERT_NE(client, nullptr);
    EXPECT_TRUE(client->Run(RedisCommand("SET").Key("bar").Arg("v")).ok());
    for (const absl::Status& status :
         {client->Run(Get("foo")).status(), client->RunFuture(Get("foo")).get().status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
      EXPECT_FALSE(RedisOutcomeUnknown(status));
      EXPECT_NE(std::string(status.message()).find(Concat("the host of ", there, " is not in")), std::string::npos)
          << status;
    }
    EXPECT_EQ(other.connections(), 0);
  }
  EXPECT_EQ(other.connections(), 0);
}

// Behind a NUL comes an end that is allowed; getaddrinfo() would read only what is before it.
TEST_F(ClusterTest, RedirectedToAHostWithANul_NothingIsConnected) {
  const RawPeer other([](size_t, const std::string& command) { return command == "PING" ? "+PONG\r\n" : "+OK\r\n"; });
  const std::string there = Concat("127.0.0.1", std::string(1, '\0'), ".example.com:", other.port());
  for (const std::string word : {"MOVED", "ASK"}) {
    std::atomic<uint16_t> port = 0;
    const RawPeer node([&](size_t, const std::string& command) {
      if (command == "PING") return std::string("+PONG\r\n");
      if (command == "INFO server") return std::string("$-1\r\n");
      if (command == "CLUSTER INFO") return std::string("+cluster_state:ok\r\n");
      if (command == "CLUSTER SLOTS")
        return Concat("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:", port.load(), "\r\n");
      if (command == "GET foo") return Concat("-", word, " ", kFooSlot, " ", there, "\r\n");
      return std::string("+OK\r\n");
    });
    port = node.port();
    const auto client = ConnectTo(Concat("redis+cluster://localhost:", node.port()),
                                  {.command_timeout = absl::Milliseconds(300), .allowed_hosts = {".example.com"}});
    ASSERT_NE(client, nullptr);
    EXPECT_FALSE(client->Run(Get("foo")).ok());
  }
  EXPECT_EQ(other.connections(), 0);
}

// An empty label is no host of the domain.
TEST(AllowedHostsTest, EndOfHostNames_MatchesOnlyNamesWithALabelBeforeIt) {
  const redis_internal::AllowedHosts hosts(*ParseRedisUrl("redis+cluster://seed"),
                                           {.allowed_hosts = {".Good.example"}});
  for (const char* const host : {"a.good.example", "A.B.GOOD.example", "seed", "SEED"}) {
    EXPECT_TRUE(hosts.Contains({.host = host})) << host;
  }
  for (const char* const host : {".good.example", "a..good.example", "good.example", "evilgood.example",
                                 "a.good.example.", "::1%x.good.example", "other"}) {
    EXPECT_FALSE(hosts.Contains({.host = host})) << host;
    EXPECT_EQ(hosts.Check({.host = host}).code(), absl::StatusCode::kPermissionDenied) << host;
  }
}

TEST(AllowedHostsTest, EndOfHostNames_MatchesNoAddress) {
  const redis_internal::AllowedHosts hosts(*ParseRedisUrl("redis+cluster://seed"), {.allowed_hosts = {".0.0.2"}});
  EXPECT_TRUE(hosts.Contains({.host = "a.0.0.2"}));
  for (const char* const host : {"127.0.0.2", "0x7f.0.0.2", "::ffff:127.0.0.2"}) {
    EXPECT_FALSE(hosts.Contains({.host = host})) << host;
  }
}

TEST_F(ClusterTest, MapNamesHostsThatAreNotAllowed_KeysThereAreRefused_AllowedOnesAreServed) {
  RedisCluster cluster;
  const std::string url = Concat("redis+cluster://localhost:", cluster.node(0).port());
  const auto closed = ConnectTo(url, {.allowed_hosts = {"localhost"}});
  ASSERT_NE(closed, nullptr);
  const absl::Status refused = closed->Run(Get("foo")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_NE(std::string(refused.message()).find(Concat("127.0.0.1:", cluster.node(2).port())), std::string::npos);
  const auto open = ConnectTo(url, {.allowed_hosts = {"127.0.0.1"}});
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(Answer(*open, Set("foo", "v")), "OK");
}

TEST_F(ClusterTest, Connect_SomeNodesDeadOrHanging_AsksTheNext) {
  RedisCluster cluster;
  const std::string url = cluster.url();
  cluster.node(0).Kill();
  cluster.node(1).Pause();
  const auto client =
      RedisClient::Connect(url, {.connect_timeout = absl::Seconds(4), .command_timeout = kFailoverTimeout});
  EXPECT_TRUE(client.ok()) << client.status();
}

TEST_F(ClusterTest, Connect_NoNodeAnswers_NamesEach) {
  const absl::Status status = RedisClient::Connect("redis+cluster://127.0.0.1:1,127.0.0.1:2").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(std::string(status.message()).find("127.0.0.1:1: "), std::string::npos) << status;
  EXPECT_NE(std::string(status.message()).find("127.0.0.1:2: "), std::string::npos) << status;
}

TEST_F(ClusterTest, Connect_PasswordWhereNodesHaveNone_IsUnauthenticated) {
  RedisServer node({.cluster = true});
  const absl::Status status =
      RedisClient::Connect(Concat("redis+cluster://:s3cr3tpw@127.0.0.1:", node.port())).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_EQ(std::string(status.message()).find("s3cr3tpw"), std::string::npos) << status;
}

TEST_F(ClusterTest, Connect_ToAServerThatIsNoNode_SaysSo) {
  RedisServer server;
  const absl::Status status = RedisClient::Connect(Concat("redis+cluster://127.0.0.1:", server.port())).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("cluster support disabled"), std::string::npos) << status;
  EXPECT_NE(std::string(status.message()).find(Concat("127.0.0.1:", server.port())), std::string::npos) << status;
}

TEST_F(ClusterTest, Stop_WhileANodeHangs_EndsWhatIsPending) {
  RedisCluster cluster;
  auto client = ConnectPatiently(cluster.url());
  ASSERT_NE(client, nullptr);
  cluster.node(2).Pause();
  std::vector<std::future<absl::StatusOr<RedisReply>>> pending;
  for (int i = 0; i < 20; ++i) pending.push_back(client->RunFuture(Get("foo")));
  client.reset();
  for (auto& reply : pending) EXPECT_EQ(reply.get().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace stockade
