// Clusters and Sentinels that name hosts without end: the threads and descriptors of a client have a bound.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "redis/cluster_answers.h"
#include "redis/support/connect_to.h"
#include "redis/support/ear.h"
#include "redis/support/loopback_peers.h"
#include "redis/support/slow_names.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/process_counts.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::AnswerOfNode;
using testing::Await;
using testing::ConnectTo;
using testing::KeysOfSlots;
using testing::LoopbackPeers;
using testing::ProcessWatch;
using testing::SlotsOf;
using testing::SlowNames;

constexpr size_t kMaxNodes = 256;  // RedisOptions::max_nodes.
constexpr int kMaxLookups = 8;
// Threads of a client besides those of its nodes and names: its timers, its map, those that it ends.
constexpr size_t kOwnThreads = 12;
constexpr size_t kOwnDescriptors = 12;
// Threads that end and descriptors that are closed, and others that begin, while the test counts.
constexpr size_t kChange = 40;

std::string UrlOf(const LoopbackPeers& peers) { return Concat("redis+cluster://127.0.0.1:", peers.port()); }

RedisOptions Options() {
  return {.connect_timeout = absl::Milliseconds(200), .command_timeout = absl::Milliseconds(600)};
}

// Runs a GET of each key, all at once. None is to be answered.
void ReadAll(RedisClient& client, const std::vector<std::string>& keys) {
  const Instant before = Clock::System()->Now();
  std::vector<std::future<absl::StatusOr<RedisReply>>> replies;
  for (const std::string& key : keys) replies.push_back(client.RunFuture(RedisCommand("GET").Key(key)));
  for (auto& reply : replies) {
    const absl::Status status = reply.get().status();
    EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) << status;
  }
  EXPECT_LT(Clock::System()->Now() - before, absl::Seconds(30));
}

void ExpectBounded(const ProcessWatch& watch) {
  EXPECT_LE(watch.more_threads(), kMaxNodes + kMaxLookups + kOwnThreads + kChange);
  EXPECT_LE(watch.most_connections(), kMaxNodes + kChange);
  // A socket and an event for each node.
  EXPECT_LE(watch.more_descriptors(), 2 * kMaxNodes + kOwnDescriptors + kChange);
  EXPECT_LE(SlowNames::most_waiting(), kMaxLookups);
}

class HostileNamesTest : public ::testing::Test {
 protected:
  void SetUp() override { SlowNames::Reset(); }
  void TearDown() override { SlowNames::Answer(); }
};

// The word of the redirection, and whether it goes to names or to addresses.
class HostileRedirectionTest : public HostileNamesTest,
                               public ::testing::WithParamInterface<std::pair<std::string, bool>> {};

TEST_P(HostileRedirectionTest, EachCommandIsRedirectedToANewHost_ThreadsAndDescriptorsHaveABound) {
  const auto& [word, to_names] = GetParam();
  uint32_t named = 0;  // The peers' thread's.
  std::atomic<uint16_t> port = 0;
  const LoopbackPeers peers([&](const LoopbackPeers::Command& command) -> std::optional<std::string> {
    if (command.host != "127.0.0.1") return "";
    if (const auto answer = AnswerOfNode(command.words)) return answer;
    if (command.words == "CLUSTER SLOTS") return SlotsOf({"127.0.0.1"}, port);
    const std::string host = to_names ? Concat("x", named, ".slow.test") : LoopbackPeers::Host(named);
    ++named;
    return Concat("-", word, " ", named % 16384, " ", host, ":", port.load(), "\r\n");
  });
  port = peers.port();
  const auto client = ConnectTo(UrlOf(peers), Options());
  ASSERT_NE(client, nullptr);
  ProcessWatch watch(peers.port());
  const std::vector<std::string> keys = KeysOfSlots(600);
  for (int round = 0; round < 2; ++round) ReadAll(*client, keys);
  watch.End();
  ExpectBounded(watch);
  if (!to_names) return;
  // Its lookups hang, and those of another client do not wait for them.
  EXPECT_EQ(SlowNames::waiting(), kMaxLookups);
  const LoopbackPeers other(
      [](const LoopbackPeers::Command& command) { return AnswerOfNode(command.words).value_or("+OK\r\n"); });
  const auto fast = RedisClient::Connect(Concat("redis://fast.test:", other.port()));
  EXPECT_TRUE(fast.ok()) << fast.status();
  const auto slow =
      RedisClient::Connect(Concat("redis://own.slow.test:", other.port()), {.wait_for_connection = false});
  SlowNames::AwaitWaiting(kMaxLookups + 1);
}

INSTANTIATE_TEST_SUITE_P(Redis, HostileRedirectionTest,
                         ::testing::Values(std::pair("MOVED", true), std::pair("MOVED", false), std::pair("ASK", true),
                                           std::pair("ASK", false)),
                         [](const auto& tested) {
                           return tested.param.first + (tested.param.second ? "ToNames" : "ToAddresses");
                         });

// All addresses are new in each map.
TEST_F(HostileNamesTest, EachMapNamesThousandsOfNewHosts_ThreadsAndDescriptorsHaveABound) {
  std::atomic<int> maps = 0;
  std::atomic<uint16_t> port = 0;
  const LoopbackPeers peers([&](const LoopbackPeers::Command& command) -> std::optional<std::string> {
    if (command.host != "127.0.0.1") return "";
    if (const auto answer = AnswerOfNode(command.words)) return answer;
    if (command.words != "CLUSTER SLOTS") return "+OK\r\n";
    std::vector<std::string> hosts;
    for (uint32_t i = 0; i < 2000; ++i) {
      const uint32_t number = static_cast<uint32_t>(maps) * 2000 + i;
      hosts.push_back(number % 4 == 0 ? Concat("x", number, ".slow.test") : LoopbackPeers::Host(number));
    }
    ++maps;
    return SlotsOf(hosts, port);
  });
  port = peers.port();
  const auto client = ConnectTo(UrlOf(peers), Options());
  ASSERT_NE(client, nullptr);
  ProcessWatch watch(peers.port());
  const std::vector<std::string> keys = KeysOfSlots(600);
  for (int round = 0; round < 3; ++round) ReadAll(*client, keys);
  watch.End();
  EXPECT_GT(maps, 2);
  ExpectBounded(watch);
}

TEST_F(HostileNamesTest, EachSubscriptionIsRedirectedToANewHost_ConnectionsHaveABound) {
  uint32_t named = 0;
  std::atomic<uint16_t> port = 0;
  const LoopbackPeers peers([&](const LoopbackPeers::Command& command) -> std::optional<std::string> {
    if (const auto answer = AnswerOfNode(command.words)) return answer;
    if (command.words == "CLUSTER SLOTS") return SlotsOf({"127.0.0.1"}, port);
    if (command.host != "127.0.0.1") return "";
    const size_t space = command.words.find(' ');
    const uint16_t slot = redis_internal::KeySlot(std::string_view(command.words).substr(space + 1));
    return Concat("-MOVED ", slot, " ", LoopbackPeers::Host(named++), ":", port.load(), "\r\n");
  });
  port = peers.port();
  const auto client = ConnectTo(UrlOf(peers), Options());
  ASSERT_NE(client, nullptr);
  ProcessWatch watch(peers.port());
  testing::Ear ear;
  std::vector<RedisSubscription> subscriptions;
  for (const std::string& channel : KeysOfSlots(600)) {
    subscriptions.push_back(client->Subscribe(channel, ear.subscriber()).value());
  }
  Await("redirections", [&] { return peers.accepted() > 400; });
  EXPECT_FALSE(subscriptions.back().AwaitSubscribed(absl::Milliseconds(100)).ok());
  subscriptions.clear();
  watch.End();
  ExpectBounded(watch);
}

// A Sentinel that names another master each time: one whose name is not resolved, or a server that says that it is one.
class HostileSentinelTest : public HostileNamesTest, public ::testing::WithParamInterface<bool> {};

TEST_P(HostileSentinelTest, NamesAnotherMasterEachTime_ThreadsAndDescriptorsHaveABound) {
  std::atomic<uint32_t> named = 0;
  std::atomic<uint16_t> port = 0;
  const LoopbackPeers peers([&](const LoopbackPeers::Command& command) -> std::optional<std::string> {
    if (const auto answer = AnswerOfNode(command.words)) return answer;
    if (command.words == "ROLE") return "*1\r\n$6\r\nmaster\r\n";
    if (command.words.starts_with("SENTINEL GET-MASTER")) {
      const std::string host = GetParam() ? Concat("x", named.load(), ".slow.test") : LoopbackPeers::Host(named);
      ++named;
      return Concat("*2\r\n", testing::BulkString(host), testing::BulkString(Concat(port.load())));
    }
    if (command.words.starts_with("SENTINEL")) return "*0\r\n";
    if (command.words.starts_with("SUBSCRIBE")) return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
    return "";
  });
  port = peers.port();
  RedisOptions options = Options();
  options.connect_timeout = absl::Milliseconds(60);
  options.max_backoff = absl::Milliseconds(20);
  options.wait_for_connection = false;
  const auto client = ConnectTo(Concat("redis+sentinel://127.0.0.1:", peers.port(), "/name"), options);
  ASSERT_NE(client, nullptr);
  ProcessWatch watch(peers.port());
  testing::Ear ear;
  const absl::StatusOr<RedisSubscription> subscription = client->Subscribe("news", ear.subscriber());
  ASSERT_TRUE(subscription.ok()) << subscription.status();
  Await("masters", [&] {
    EXPECT_FALSE(client->Run(RedisCommand("GET").Key("k"), {.timeout = absl::Milliseconds(20)}).ok());
    return named > 40;
  });
  watch.End();
  EXPECT_LE(watch.more_threads(), kMaxLookups + kOwnThreads);
  EXPECT_LE(watch.most_connections(), kOwnDescriptors);
  EXPECT_LE(SlowNames::most_waiting(), kMaxLookups);
}

INSTANTIATE_TEST_SUITE_P(Redis, HostileSentinelTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Names" : "Servers"; });

}  // namespace
}  // namespace stockade
