// RedisOptions::max_nodes: clusters of about as many nodes, on loopback addresses.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "redis/cluster_answers.h"
#include "redis/support/connect_to.h"
#include "redis/support/ear.h"
#include "redis/support/loopback_peers.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/process_counts.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::AnswerOfNode;
using testing::Await;
using testing::BulkString;
using testing::ConnectTo;
using testing::KeysOfShares;
using testing::LoopbackPeers;
using testing::ProcessWatch;
using testing::SlotsOf;

constexpr absl::Duration kPatience = absl::Minutes(1);

// A cluster of masters with equal shares, which answer GET with their own address, and INCR not at all.
class PeerCluster {
 public:
  explicit PeerCluster(uint32_t masters, bool replicas = false)
      : peers_([this](const LoopbackPeers::Command& command) { return Answer(command); }),
        keys_(KeysOfShares(masters)) {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = 0; i < masters; ++i) masters_.push_back(LoopbackPeers::Host(i));
    for (uint32_t i = 0; replicas && i < masters; ++i) replicas_.push_back(LoopbackPeers::Host(masters + i));
  }

  std::string url() const { return Concat("redis+cluster://", masters_[0], ":", peers_.port()); }
  std::unique_ptr<RedisClient> Connect(size_t max_nodes) const {
    return ConnectTo(url(), {.connect_timeout = absl::Seconds(10),
                             .command_timeout = kPatience,
                             .min_backoff = absl::Milliseconds(1),
                             .max_backoff = absl::Milliseconds(5),
                             .max_nodes = max_nodes});
  }
  const std::string& key(size_t master) const { return keys_[master]; }
  const std::string& host(size_t master) const { return masters_[master]; }
  RedisCommand Get(size_t master) const { return RedisCommand("GET").Key(key(master)); }
  RedisCommand Hang(size_t master) const { return RedisCommand("INCR").Key(key(master)); }
  const LoopbackPeers& peers() const { return peers_; }

  // From now on no node gives the map, and the first master redirects commands with `key` to `host`.
  void Redirect(const std::string& key, const std::string& word, const std::string& host) {
    const std::lock_guard lock(mutex_);
    gives_map_ = false;
    redirections_[Concat("GET ", key)] = redirections_[Concat("INCR ", key)] =
        Concat("-", word, " ", redis_internal::KeySlot(key), " ", host, ":", peers_.port(), "\r\n");
  }
  // Connections that have had commands of users.
  size_t used() const {
    const std::lock_guard lock(mutex_);
    return used_.size();
  }
  // Commands that hang.
  size_t hanging() const {
    const std::lock_guard lock(mutex_);
    return hanging_;
  }

 private:
  std::optional<std::string> Answer(const LoopbackPeers::Command& command) {
    if (const auto answer = AnswerOfNode(command.words)) return answer;
    const std::lock_guard lock(mutex_);
    if (command.words == "CLUSTER SLOTS") {
      return gives_map_ ? SlotsOf(masters_, peers_.port(), replicas_) : std::string("-ERR no map\r\n");
    }
    used_.insert(command.connection);
    const auto redirection = redirections_.find(command.words);
    if (redirection != redirections_.end() && command.host == masters_[0]) return redirection->second;
    if (command.words.starts_with("GET")) return BulkString(command.host);
    if (command.words.find("SUBSCRIBE ") != std::string::npos) {
      const bool ends = command.words.starts_with("SUN");
      const std::string channel = command.words.substr(command.words.find(' ') + 1);
      return Concat("*3\r\n", BulkString(ends ? "sunsubscribe" : "ssubscribe"), BulkString(channel), ":1\r\n");
    }
    ++hanging_;
    return "";
  }

  mutable std::mutex mutex_;
  std::vector<std::string> masters_;
  std::vector<std::string> replicas_;
  std::map<std::string, std::string> redirections_;
  bool gives_map_ = true;
  std::set<uint64_t> used_;
  size_t hanging_ = 0;
  LoopbackPeers peers_;
  const std::vector<std::string> keys_;
};

std::string TextOf(const absl::StatusOr<RedisReply>& reply) {
  return reply.ok() ? std::string(reply->text()) : reply.status().ToString();
}

// Clusters of as many nodes as the bound, one fewer and one more.
class MaxNodesTest : public ::testing::TestWithParam<int> {};

TEST_P(MaxNodesTest, AllNodesOfTheMap_AreServed_AndKeepTheirConnectionsIfTheyFit) {
  constexpr size_t kMax = 20;
  const size_t nodes = kMax + static_cast<size_t>(GetParam()) - 1;
  const PeerCluster cluster(static_cast<uint32_t>(nodes));
  ProcessWatch watch(cluster.peers().port());
  const auto client = cluster.Connect(kMax);
  ASSERT_NE(client, nullptr);
  std::vector<RedisCommand> gets;
  for (size_t i = 0; i < nodes; ++i) gets.push_back(cluster.Get(i));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < nodes; ++i) EXPECT_EQ(TextOf(client->Run(gets[i])), cluster.host(i));
    const std::vector<absl::StatusOr<RedisReply>> many = client->RunMany(gets);
    for (size_t i = 0; i < nodes; ++i) EXPECT_EQ(TextOf(many[i]), cluster.host(i));
    std::vector<std::future<absl::StatusOr<RedisReply>>> futures;
    for (const RedisCommand& get : gets) futures.push_back(client->RunFuture(get));
    for (size_t i = 0; i < nodes; ++i) EXPECT_EQ(TextOf(futures[i].get()), cluster.host(i));
    for (size_t i = 0; i < nodes; ++i) EXPECT_TRUE(client->ServerOf(cluster.key(i)).ok());
  }
  if (nodes <= kMax) {
    EXPECT_EQ(cluster.used(), nodes);
  } else {
    EXPECT_GT(cluster.used(), nodes);
  }
  // One more asks for the map.
  watch.End();
  EXPECT_LE(watch.most_connections(), kMax + 1);
}

INSTANTIATE_TEST_SUITE_P(Redis, MaxNodesTest, ::testing::Values(0, 1, 2), [](const auto& tested) {
  return std::string(tested.param == 0 ? "OneFewer" : tested.param == 1 ? "AsMany" : "OneMore");
});

TEST(MaxNodesBoundTest, DefaultOf256_ClusterOf256_KeepsOneConnectionPerNode) {
  const PeerCluster cluster(256);
  const auto client = cluster.Connect(RedisOptions().max_nodes);
  ASSERT_NE(client, nullptr);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::future<absl::StatusOr<RedisReply>>> futures;
    for (size_t i = 0; i < 256; ++i) futures.push_back(client->RunFuture(cluster.Get(i)));
    for (size_t i = 0; i < 256; ++i) EXPECT_EQ(TextOf(futures[i].get()), cluster.host(i));
  }
  EXPECT_EQ(cluster.used(), 256u);
}

TEST(MaxNodesBoundTest, AllNodesOfTheMapHaveCommands_AnotherOneWaits_AndNoneIsLost) {
  const PeerCluster cluster(3);
  const auto client = cluster.Connect(2);
  ASSERT_NE(client, nullptr);
  auto first = client->RunFuture(cluster.Hang(0), {.timeout = kPatience});
  auto second = client->RunFuture(cluster.Hang(1), {.timeout = absl::Seconds(2)});
  Await("both", [&] { return cluster.hanging() == 2; });
  const std::vector<RedisCommand> gets = {cluster.Get(2)};
  for (const absl::Status& status : {client->Run(gets[0], {.timeout = absl::Milliseconds(100)}).status(),
                                     client->RunMany(gets, {.timeout = absl::Milliseconds(100)})[0].status(),
                                     client->RunFuture(gets[0], {.timeout = absl::Milliseconds(100)}).get().status(),
                                     client->ServerOf(cluster.key(2), absl::Milliseconds(100)).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_FALSE(RedisOutcomeUnknown(status)) << status;
    EXPECT_NE(status.message().find("connections to 2 nodes are in use (RedisOptions.max_nodes); not sent"),
              std::string::npos)
        << status;
  }
  // Goes on when the second one's command has been given up.
  EXPECT_EQ(TextOf(client->Run(gets[0])), cluster.host(2));
  EXPECT_TRUE(absl::IsDeadlineExceeded(second.get().status()));
  EXPECT_EQ(cluster.hanging(), 2u);
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "its connection was kept";
}

class RedirectedNodeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RedirectedNodeTest, BeyondTheBound_OldestThatTheMapDoesNotNameIsDropped_AsIfItsConnectionWasLost) {
  PeerCluster cluster(1);
  ProcessWatch watch(cluster.peers().port());
  const auto client = cluster.Connect(3);
  ASSERT_NE(client, nullptr);
  const std::vector<std::string> keys = testing::KeysOfSlots(4);
  for (uint32_t i = 1; i < 4; ++i) cluster.Redirect(keys[i], GetParam(), LoopbackPeers::Host(i));
  auto at_oldest = client->RunFuture(RedisCommand("INCR").Key(keys[1]), {.timeout = kPatience});
  Await("the oldest", [&] { return cluster.hanging() == 1; });
  auto at_newer = client->RunFuture(RedisCommand("INCR").Key(keys[2]), {.timeout = kPatience});
  Await("the newer", [&] { return cluster.hanging() == 2; });
  EXPECT_EQ(TextOf(client->Run(RedisCommand("GET").Key(keys[3]))), LoopbackPeers::Host(3));
  const absl::Status dropped = at_oldest.get().status();
  EXPECT_EQ(dropped.code(), absl::StatusCode::kUnavailable) << dropped;
  EXPECT_TRUE(RedisOutcomeUnknown(dropped)) << dropped;
  EXPECT_NE(dropped.message().find(Concat("the connection to ", LoopbackPeers::Host(1), ":", cluster.peers().port(),
                                          " was ended for one to another node (RedisOptions.max_nodes); unknown")),
            std::string::npos)
      << dropped;
  EXPECT_EQ(at_newer.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << at_newer.get().status();
  EXPECT_EQ(TextOf(client->Run(RedisCommand("GET").Key(keys[0]))), cluster.host(0));
  watch.End();
  EXPECT_LE(watch.most_connections(), 4u);
}

TEST(MaxNodesBoundTest, Replicas_GetConnectionsOnlyWhileThereIsRoom) {
  const PeerCluster cluster(3, /*replicas=*/true);
  for (const size_t max_nodes : {3, 4, 6}) {
    const auto client = cluster.Connect(max_nodes);
    ASSERT_NE(client, nullptr);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(TextOf(client->Run(cluster.Get(i))), cluster.host(i));
    const size_t masters = cluster.used();
    const auto replicas_used = [&] { return cluster.used() - masters; };
    const auto read = [&](size_t i) {
      const absl::StatusOr<RedisReply> got = client->Run(cluster.Get(i), {.read_from = RedisReadFrom::kReplica});
      EXPECT_TRUE(got.ok()) << got.status();
      return got.ok() && got->text() != cluster.host(i);
    };
    for (size_t i = 0; i < 3; ++i) read(i);
    if (max_nodes > 3) Await("the replicas", [&] { return read(0) || read(1) || read(2); });
    if (max_nodes == 6) Await("all replicas", [&] { return read(0) && read(1) && read(2); });
    EXPECT_EQ(replicas_used(), max_nodes - 3);
  }
}

TEST(MaxNodesBoundTest, HomesOfChannels_AreBounded_AndTheNextOneSaysSo) {
  const PeerCluster cluster(3);
  const auto client = cluster.Connect(2);
  ASSERT_NE(client, nullptr);
  testing::Ear ear;
  const auto first = client->Subscribe(cluster.key(0), ear.subscriber());
  auto second = client->Subscribe(cluster.key(1), ear.subscriber());
  ASSERT_TRUE(first->AwaitSubscribed(kPatience).ok());
  ASSERT_TRUE(second->AwaitSubscribed(kPatience).ok());
  const auto third = client->Subscribe(cluster.key(2), ear.subscriber());
  const absl::Status refused = third->AwaitSubscribed(absl::Milliseconds(50));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_NE(refused.message().find("connections to 2 nodes are in use (RedisOptions.max_nodes)"), std::string::npos)
      << refused;
  *second = RedisSubscription();
  EXPECT_EQ(third->AwaitSubscribed(kPatience), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Redis, RedirectedNodeTest, ::testing::Values("MOVED", "ASK"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace stockade
