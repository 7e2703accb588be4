#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "connect.h"
#include "redis/support/connect_to.h"
#include "redis/support/raw_peer.h"
#include "redis/support/sentinel_set.h"
#include "router.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "stockade/redis/redis_url.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::ConnectPatiently;
using testing::InfoField;
using testing::RedisServer;
using testing::Scaled;
using testing::SentinelSet;

class SentinelTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

std::string PortOf(RedisClient& client) {
  const absl::StatusOr<RedisReply> info = client.Run(RedisCommand("INFO").Arg("server").Idempotent());
  return info.ok() ? InfoField(info->text(), "tcp_port") : info.status().ToString();
}

// Writes, one command after another, until it ends; counts what was answered, and keeps the first error.
class Writer {
 public:
  explicit Writer(RedisClient& client) : thread_([this, &client] { Write(client); }) { AwaitMore(1); }
  ~Writer() { End().IgnoreError(); }

  void AwaitMore(int more) {
    const int until = written_ + more;
    Await("the writer", [&] { return written_ >= until || failed_; });
  }
  absl::Status End() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
    return error_;
  }

 private:
  void Write(RedisClient& client) {
    for (int i = 0; !ending_; ++i) {
      const absl::StatusOr<RedisReply> set = client.Run(RedisCommand("SET").Key("k").Arg(i).Idempotent());
      if (!set.ok()) {
        error_ = set.status();
        failed_ = true;
        return;
      }
      ++written_;
    }
  }

  std::atomic<bool> ending_ = false;
  std::atomic<bool> failed_ = false;
  std::atomic<int> written_ = 0;
  absl::Status error_;
  std::thread thread_;
};

TEST_F(SentinelTest, SentinelUserWithoutAPassword_IsThatUser) {
  SentinelSet set({.sentinel_config = {"user watcher on nopass ~* &* +@all"}});
  const auto client = ConnectPatiently(set.url() + "?sentinel_username=watcher");
  ASSERT_NE(client, nullptr);
  const auto clients = [&](size_t n) { return set.sentinel(n).Call({"CLIENT", "LIST"}).text; };
  Await("a connection of the user",
        [&] { return (clients(0) + clients(1) + clients(2)).find("user=watcher") != std::string::npos; });
  const absl::Status refused = RedisClient::Connect(set.url() + "?sentinel_username=nobody").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated) << refused;
}

TEST_F(SentinelTest, Connect_WithoutWaiting_CommandsWaitForTheMaster) {
  SentinelSet set;
  for (size_t n = 0; n < 3; ++n) set.sentinel(n).Kill();
  const auto client = testing::ConnectTo(set.url(), {.wait_for_connection = false});
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->Run(RedisCommand("PING"), {.timeout = absl::Milliseconds(100)}).status().code(),
            absl::StatusCode::kUnavailable);
  auto pong = client->RunFuture(RedisCommand("PING"), {.timeout = absl::Minutes(1)});
  for (size_t n = 0; n < 3; ++n) set.sentinel(n).Restart();
  EXPECT_EQ(pong.get().value().text(), "PONG");
}

TEST_F(SentinelTest, Connect_UrlOfSentinels_TalksToTheMaster) {
  SentinelSet set;
  const auto client = ConnectPatiently(set.url() + "?client_name=follower");
  ASSERT_NE(client, nullptr);
  const absl::StatusOr<RedisReply> ran = client->Run(RedisCommand("SET").Key("k").Arg("v"));
  EXPECT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ(set.master().Call({"GET", "k"}), "v");
  EXPECT_NE(set.master().Call({"CLIENT", "LIST"}).text.find("name=follower"), std::string::npos);
}

TEST_F(SentinelTest, Failover_ByCommand_WritesGoOnAtTheNewMaster) {
  SentinelSet set;
  const auto client = ConnectPatiently(set.url() + "?client_name=follower");
  ASSERT_NE(client, nullptr);
  const uint16_t old = set.master_port();
  Writer writer(*client);
  set.Failover();
  writer.AwaitMore(1);
  EXPECT_EQ(writer.End(), absl::OkStatus());
  EXPECT_NE(set.master_port(), old);
  EXPECT_EQ(PortOf(*client), Concat(set.master_port()));
  EXPECT_EQ(set.ServerOn(old).Call({"CLIENT", "LIST"}).text.find("name=follower"), std::string::npos);
}

TEST_F(SentinelTest, Failover_AfterAKill_WritesGoOnAtTheNewMaster) {
  SentinelSet set;
  const auto client = ConnectPatiently(set.url());
  ASSERT_NE(client, nullptr);
  Writer writer(*client);
  set.KillMaster();
  writer.AwaitMore(1);
  EXPECT_EQ(writer.End(), absl::OkStatus());
  EXPECT_EQ(PortOf(*client), Concat(set.master_port()));
}

TEST_F(SentinelTest, Failover_OfAMasterThatHangs_ConnectionToItIsLeft) {
  SentinelSet set;
  const auto client = ConnectPatiently(set.url());
  ASSERT_NE(client, nullptr);
  RedisServer& old = set.master();
  old.Pause();
  // Sent, and never answered by the old master.
  auto hangs = client->RunFuture(RedisCommand("SET").Key("k").Arg("idempotent").Idempotent());
  auto unknown = client->RunFuture(RedisCommand("INCR").Key("n"));
  EXPECT_TRUE(hangs.get().ok());
  const absl::StatusOr<RedisReply> lost = unknown.get();
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kUnavailable) << lost.status();
  EXPECT_TRUE(RedisOutcomeUnknown(lost.status())) << lost.status();
  old.Resume();
  set.AwaitSettled();
  EXPECT_EQ(PortOf(*client), Concat(set.master_port()));
}

// Commands that are bound to the master, while the Sentinels replace it. Each server has a command of its own, so that
// it counts the commands that ran on it.
TEST_F(SentinelTest, Failovers_CommandsBoundToTheOldMaster_NeverRunOnTheNewOne) {
  constexpr int kClients = 25;
  const int64_t failovers = Scaled(1, 500 / kClients);
  const std::string commands[] = {"LASTSAVE", "TIME", "ECHO"};
  SentinelSet set;
  std::map<std::string, size_t> servers;  // By run id.
  for (size_t i = 0; i < 3; ++i) servers[set.server(i).Info("run_id")] = i;
  ASSERT_EQ(servers.size(), 3);
  std::vector<std::unique_ptr<RedisClient>> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(ConnectPatiently(set.url()));
  std::atomic<int64_t> tries = 0;
  for (int64_t failover = 0; failover < failovers; ++failover) {
    const std::string old = set.master().Info("run_id");
    std::atomic<int> bound = 0;
    std::thread sentinels([&] {
      Await("the clients", [&] { return bound == kClients; });
      set.Failover();
    });
    testing::RunThreads(kClients, [&](int i) {
      RedisClient& client = *clients[static_cast<size_t>(i)];
      Await("the master", [&] {
        const absl::StatusOr<RedisServerIdentity> server = client.ServerOf("k");
        return server.ok() && server->run_id.ok() && *server->run_id == old;
      });
      RedisCommand command(commands[servers.at(old)]);
      if (command.name() == "ECHO") command.Arg("x");
      if (i % 2 == 0) command.Idempotent();
      absl::Status status;
      for (int n = 0; !absl::IsAborted(status); ++n) {
        status = n % 2 == 0 ? client.Run(command, {.on_server = old}).status()
                            : client.RunFuture(command, {.on_server = old}).get().status();
        EXPECT_TRUE(status.ok() || absl::IsAborted(status) || absl::IsUnavailable(status)) << status;
        if (n == 0) ++bound;
      }
      const absl::StatusOr<RedisServerIdentity> server = client.ServerOf("k");
      EXPECT_TRUE(server.ok() && server->run_id.ok() && *server->run_id != old) << server.status();
      ++tries;
    });
    sentinels.join();
    EXPECT_NE(set.master().Info("run_id"), old);
  }
  EXPECT_EQ(tries, failovers * kClients);
  bool ran = false;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(servers.at(set.server(i).Info("run_id")), i);
    const std::string stats = set.server(i).Call({"INFO", "commandstats"}).text;
    for (size_t of = 0; of < 3; ++of) {
      const std::string calls = InfoField(stats, Concat("cmdstat_", absl::AsciiStrToLower(commands[of])));
      if (of == i) {
        ran = ran || !calls.empty();
      } else {
        EXPECT_EQ(calls, "") << commands[of] << " on server " << i;
      }
    }
  }
  EXPECT_TRUE(ran);
}

// How often the server was sent the command.
int64_t CallsOf(const RedisServer& server, const std::string& command) {
  const std::string stats = InfoField(server.Call({"INFO", "commandstats"}).text, "cmdstat_" + command);
  return stats.empty() ? 0 : std::stoll(stats.substr(std::string("calls=").size()));
}

TEST_F(SentinelTest, ReadFromReplica_IsServedByOne_OrByTheMasterIfNoneIsThere) {
  SentinelSet set;
  const auto client = ConnectPatiently(set.url());
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Run(RedisCommand("SET").Key("k").Arg("value")).ok());
  const RedisCallOptions from_replica = {.read_from = RedisReadFrom::kReplica};
  const auto reads_of_replicas = [&] {
    int64_t calls = 0;
    for (size_t i = 0; i < 3; ++i) {
      RedisServer& server = set.server(i);
      if (server.running() && server.port() != set.master_port()) calls += CallsOf(server, "strlen");
    }
    return calls;
  };
  const auto read = [&] { return client->Run(RedisCommand("STRLEN").Key("k"), from_replica); };
  // At first at the master. Replication is behind, perhaps.
  Await("a read from a replica", [&] {
    const absl::StatusOr<RedisReply> length = read();
    EXPECT_TRUE(length.ok()) << length.status();
    return length.ok() && length->integer() == 5 && reads_of_replicas() > 0;
  });
  const int64_t at_master = CallsOf(set.master(), "strlen");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(read().value().integer(), 5);
  EXPECT_EQ(CallsOf(set.master(), "strlen"), at_master);
  EXPECT_EQ(client->RunFuture(RedisCommand("STRLEN").Key("k"), from_replica).get().value().integer(), 5);
  EXPECT_EQ(RedisErrorCode(client->Run(RedisCommand("LLEN").Key("k"), from_replica).status()), "WRONGTYPE");
  const uint16_t master = set.master_port();
  for (size_t i = 0; i < 3; ++i) {
    if (set.server(i).port() != master) set.server(i).Kill();
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(read().value().integer(), 5);
  EXPECT_GT(CallsOf(set.master(), "strlen"), at_master);
  for (size_t i = 0; i < 3; ++i) {
    if (set.server(i).port() != master) set.server(i).Restart();
  }
  set.AwaitSettled();
  Await("a read from a replica that came back", [&] {
    const absl::StatusOr<RedisReply> length = read();
    EXPECT_TRUE(length.ok()) << length.status();
    return reads_of_replicas() > 0;
  });
}

TEST_F(SentinelTest, ReadFromReplica_DuringFailovers_GoesOn) {
  SentinelSet set;
  const auto client = ConnectPatiently(set.url());
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Run(RedisCommand("SET").Key("k").Arg("value").Idempotent()).ok());
  std::atomic<bool> ending = false;
  std::atomic<int64_t> reads = 0;
  std::thread reader([&] {
    while (!ending) {
      const absl::StatusOr<RedisReply> got =
          client->Run(RedisCommand("EXISTS").Key("k"), {.read_from = RedisReadFrom::kReplica});
      EXPECT_TRUE(got.ok()) << got.status();
      ++reads;
    }
  });
  set.Failover();
  set.KillMaster();
  const int64_t before = reads;
  Await("reads", [&] { return reads > before + 100; });
  ending = true;
  reader.join();
}

// The master may know a script that the replica does not, and may serve commands while a script keeps the replica busy.
TEST_F(SentinelTest, ReadFromReplica_ReplicaCannotServeItNow_IsServedByTheMaster) {
  SentinelSet set({.down_after = absl::Minutes(1)});  // A Sentinel kills the script of a replica that is down.
  const auto client = ConnectPatiently(set.url());
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Run(RedisCommand("SET").Key("k").Arg("value")).ok());
  std::vector<RedisServer*> replicas;
  for (size_t i = 0; i < 3; ++i) {
    if (set.server(i).port() != set.master_port()) replicas.push_back(&set.server(i));
  }
  const RedisCallOptions from_replica = {.read_from = RedisReadFrom::kReplica};
  Await("a read from a replica", [&] {
    EXPECT_TRUE(client->Run(RedisCommand("STRLEN").Key("k"), from_replica).ok());
    return CallsOf(*replicas[0], "strlen") + CallsOf(*replicas[1], "strlen") > 0;
  });

  const testing::RawReply sha = set.master().Call({"SCRIPT", "LOAD", "return redis.call('STRLEN', KEYS[1])"});
  const absl::StatusOr<RedisReply> by_script =
      client->Run(RedisCommand("EVALSHA_RO").Arg(sha.text).Arg(1).Key("k"), from_replica);
  ASSERT_TRUE(by_script.ok()) << by_script.status();
  EXPECT_EQ(by_script->integer(), 5);

  std::vector<std::unique_ptr<testing::RawRedis>> callers;
  for (const RedisServer* replica : replicas) {
    replica->Call({"CONFIG", "SET", "busy-reply-threshold", "1"});
    callers.push_back(std::make_unique<testing::RawRedis>(replica->port()));
    callers.back()->Send(testing::RawRedis::Encode({"EVAL_RO", "while true do end", "0"}));
    Await("a busy replica", [&] { return replica->Call({"GET", "k"}).text.starts_with("BUSY"); });
  }
  const absl::StatusOr<RedisReply> read = client->Run(RedisCommand("STRLEN").Key("k"), from_replica);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->integer(), 5);
  for (const RedisServer* replica : replicas) replica->Call({"SCRIPT", "KILL"});
}

TEST_F(SentinelTest, ReadFromReplica_OfACommandThatMayWrite_IsInvalidArgument) {
  SentinelSet set;
  const auto client = ConnectPatiently(set.url());
  ASSERT_NE(client, nullptr);
  const RedisScript script("return 1");
  const RedisCommand reads[] = {RedisCommand("GET").Key("k")};
  for (const RedisCommand& command :
       {RedisCommand("SET").Key("k").Arg("v"), RedisCommand("getdel").Key("k"), RedisCommand(script, {"k"}),
        RedisCommand("FT.SEARCH").Key("k"), RedisCommand::Transaction(reads)}) {
    const absl::Status status = client->Run(command, {.read_from = RedisReadFrom::kReplica}).status();
    EXPECT_EQ(status, absl::InvalidArgumentError(
                          Concat("redis: ", command.name(),
                                 " is no command that reads only, as read_from = kReplica needs; not sent")));
  }
  EXPECT_EQ(client->Run(reads[0], {.on_server = "x", .read_from = RedisReadFrom::kReplica}).status(),
            absl::InvalidArgumentError("RedisCallOptions.on_server excludes read_from = kReplica; not sent"));
  EXPECT_EQ(client->Run(reads[0], {.read_from = RedisReadFrom::kReplica, .retry = false}).status(),
            absl::InvalidArgumentError("RedisCallOptions.retry = false excludes read_from = kReplica; not sent"));
  EXPECT_TRUE(client->Run(RedisCommand("get").Key("k"), {.read_from = RedisReadFrom::kReplica}).ok());
  EXPECT_EQ(set.master().Call({"EXISTS", "k"}), "0");
}

TEST_F(SentinelTest, Switch_WithoutAnEventAndWithTheOldServerWell_IsNoticed) {
  SentinelSet set;
  RedisServer other;
  const absl::StatusOr<RedisUrl> url = ParseRedisUrl(set.url() + "?client_name=follower");
  ASSERT_TRUE(url.ok()) << url.status();
  const RedisOptions options;
  base_internal::TimerQueue timers(Clock::System());
  metrics_internal::ComponentMetrics metrics;
  const std::unique_ptr<redis_internal::Router> router =
      redis_internal::MakeRouter(*url, options, &timers, &metrics).value();
  std::mutex mutex;
  std::condition_variable changed;
  int changes = 0;
  router->SetOnTopologyChange([&] {
    const std::lock_guard lock(mutex);
    ++changes;
    changed.notify_all();
  });
  ASSERT_EQ(router->Start(/*wait=*/true), absl::OkStatus());
  const absl::StatusOr<std::string> before = router->ChannelHome("news");
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(*before, Concat("127.0.0.1:", set.master_port()));
  // From here on only the time has it ask again.
  Await("the watcher", [&] {
    size_t subscribers = 0;
    for (size_t i = 0; i < 3; ++i)
      subscribers += set.sentinel(i).Call({"CLIENT", "LIST", "TYPE", "pubsub"}).text.size();
    return subscribers > 0;
  });
  int seen = 0;
  {
    const std::lock_guard lock(mutex);
    seen = changes;
  }
  for (size_t i = 0; i < 3; ++i) {
    set.sentinel(i).Call({"SENTINEL", "REMOVE", "mymaster"});
    set.sentinel(i).Call({"SENTINEL", "MONITOR", "mymaster", "127.0.0.1", Concat(other.port()), "2"});
  }
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return changes > seen; }));
  }
  const absl::StatusOr<std::string> after = router->ChannelHome("news");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*after, Concat("127.0.0.1:", other.port()));
  Await("the connection to the new master", [&] {
    return other.Call({"CLIENT", "LIST"}).text.find("name=follower") != std::string::npos;
  });
  router->Stop();
}

TEST_F(SentinelTest, Sentinels_AllDownOnceConnected_CommandsGoOn) {
  SentinelSet set;
  const auto client = ConnectPatiently(set.url());
  ASSERT_NE(client, nullptr);
  const std::string port = PortOf(*client);
  for (size_t i = 0; i < 3; ++i) set.sentinel(i).Kill();
  EXPECT_EQ(PortOf(*client), port);
}

TEST_F(SentinelTest, Sentinels_OneDeadAndOneThatHangs_ConnectAsksTheThird) {
  SentinelSet set;
  const std::string url = set.url();
  set.sentinel(0).Kill();
  set.sentinel(1).Pause();
  const auto client =
      RedisClient::Connect(url, {.connect_timeout = absl::Seconds(4), .command_timeout = testing::kFailoverTimeout});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(PortOf(**client), Concat(set.server(0).port()));
}

TEST_F(SentinelTest, Sentinels_OfTheUrlDownLater_FollowsThroughThoseItLearnt) {
  SentinelSet set;
  const auto client = ConnectPatiently(Concat("redis+sentinel://127.0.0.1:", set.sentinel(0).port(), "/mymaster"));
  ASSERT_NE(client, nullptr);
  set.sentinel(0).Kill();
  set.Failover();
  EXPECT_EQ(PortOf(*client), Concat(set.master_port()));
}

TEST_F(SentinelTest, Connect_NameUnknown_NamesItAndTheSentinels) {
  SentinelSet set;
  std::string url = set.url();
  url.replace(url.rfind('/'), std::string::npos, "/nosuch");
  const absl::Status status = RedisClient::Connect(url).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  const std::string said(status.message());
  EXPECT_EQ(said.substr(0, 20), "no master 'nosuch': ") << said;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NE(said.find(Concat("127.0.0.1:", set.sentinel(i).port(), ": unknown master 'nosuch'")), std::string::npos)
        << said;
  }
}

TEST_F(SentinelTest, Connect_NamedServerIsAReplica_SaysSo) {
  RedisServer master;
  RedisServer replica({.replica_of = master.Host()});
  // It has not found out yet, and never will: nobody agrees with it.
  RedisServer sentinel(
      {.sentinel = true, .config = {Concat("sentinel monitor mymaster 127.0.0.1 ", replica.port(), " 3")}});
  const absl::Status status =
      RedisClient::Connect(Concat("redis+sentinel://127.0.0.1:", sentinel.port(), "/mymaster")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(std::string(status.message()).find(Concat("127.0.0.1:", replica.port(), " is not the master")),
            std::string::npos)
      << status;
}

TEST_F(SentinelTest, Passwords_OfSentinelsAndServers_EachGetsItsOwn) {
  RedisServer master({.password = "of-the-data"});
  RedisServer sentinel({.sentinel = true,
                        .password = "of-sentinels",
                        .config = {Concat("sentinel monitor mymaster 127.0.0.1 ", master.port(), " 1"),
                                   "sentinel auth-pass mymaster of-the-data"}});
  const std::string host = Concat("127.0.0.1:", sentinel.port(), "/mymaster");
  const auto client =
      ConnectPatiently(Concat("redis+sentinel://:of-the-data@", host, "?sentinel_password=of-sentinels"));
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(PortOf(*client), Concat(master.port()));
  const absl::Status refused = RedisClient::Connect(Concat("redis+sentinel://:of-the-data@", host)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated) << refused;
}

TEST_F(SentinelTest, PasswordOrDatabase_ThatSentinelOrMasterLack_IsTheirCode) {
  RedisServer master;
  RedisServer sentinel(
      {.sentinel = true, .config = {Concat("sentinel monitor mymaster 127.0.0.1 ", master.port(), " 1")}});
  const std::string host = Concat("127.0.0.1:", sentinel.port(), "/mymaster");
  const auto code = [](const std::string& url) { return RedisClient::Connect(url).status(); };
  const absl::Status at_sentinel = code(Concat("redis+sentinel://", host, "?sentinel_password=s3cr3tpw"));
  EXPECT_EQ(at_sentinel.code(), absl::StatusCode::kUnauthenticated) << at_sentinel;
  const absl::Status at_master = code(Concat("redis+sentinel://:s3cr3tpw@", host));
  EXPECT_EQ(at_master.code(), absl::StatusCode::kUnauthenticated) << at_master;
  const absl::Status database = code(Concat("redis+sentinel://", host, "/99"));
  EXPECT_EQ(database.code(), absl::StatusCode::kInvalidArgument) << database;
  EXPECT_NE(std::string(database.message()).find("database 99 of the URL"), std::string::npos) << database;
  for (const absl::Status& status : {at_sentinel, at_master}) {
    EXPECT_EQ(std::string(status.message()).find("s3cr3tpw"), std::string::npos) << status;
  }
}

TEST_F(SentinelTest, Connect_NamedHostIsNotAllowed_NamesIt_AndNothingIsConnected) {
  RedisServer master;
  RedisServer sentinel(
      {.sentinel = true, .config = {Concat("sentinel monitor mymaster 127.0.0.1 ", master.port(), " 1")}});
  const std::string url = Concat("redis+sentinel://localhost:", sentinel.port(), "/mymaster?client_name=follower");
  const absl::Status refused = RedisClient::Connect(url, {.allowed_hosts = {"localhost"}}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_NE(std::string(refused.message()).find(Concat("the host of 127.0.0.1:", master.port(), " is not in")),
            std::string::npos)
      << refused;
  const auto client = testing::ConnectTo(url, {.allowed_hosts = {"127.0.0.1"}});
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(PortOf(*client), Concat(master.port()));
}

// getaddrinfo() would read only what is before the NUL.
TEST_F(SentinelTest, NamedHostsHaveANul_NothingIsConnected) {
  const testing::RawPeer other([](size_t, const std::string& command) {
    return command == "PING" ? "+PONG\r\n" : command == "ROLE" ? "*1\r\n$6\r\nmaster\r\n" : "+OK\r\n";
  });
  const auto bulk = [](const std::string& text) { return Concat("$", text.size(), "\r\n", text, "\r\n"); };
  const std::string host = Concat("127.0.0.1", std::string(1, '\0'), ".example.com");
  const std::string port = Concat(other.port());
  const testing::RawPeer sentinel([&](size_t, const std::string& command) -> std::string {
    if (command == "PING") return "+PONG\r\n";
    if (command.starts_with("SENTINEL SENTINELS")) {
      return Concat("*1\r\n*4\r\n", bulk("ip"), bulk(host), bulk("port"), bulk(port));
    }
    return Concat("*2\r\n", bulk(host), bulk(port));
  });
  const absl::Status refused = RedisClient::Connect(Concat("redis+sentinel://localhost:", sentinel.port(), "/mymaster"),
                                                    {.allowed_hosts = {".example.com"}})
                                   .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_NE(std::string(refused.message()).find("named no address"), std::string::npos) << refused;
  EXPECT_EQ(other.connections(), 0);
}

// 20 questions take at least as long as the pauses between them; one for each event took some 40 ms.
TEST_F(SentinelTest, EventsWithoutEnd_AreAnsweredByFewQuestions_AndASwitchIsFollowed) {
  RedisServer master;
  RedisServer next;
  std::atomic<uint16_t> named = master.port();
  std::atomic<int> questions = 0;
  std::atomic<bool> ending = false;
  const std::string event = "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nx\r\n";
  testing::RawPeer* sentinel = nullptr;
  std::mutex mutex;
  std::vector<std::thread> floods;
  testing::RawPeer peer([&](size_t connection, const std::string& command) -> std::string {
    if (command == "PING") return "+PONG\r\n";
    if (command.starts_with("SENTINEL SENTINELS")) return "*0\r\n";
    if (command.starts_with("SENTINEL")) {
      ++questions;
      const std::string port = Concat(named.load());
      return Concat("*2\r\n$9\r\n127.0.0.1\r\n$", port.size(), "\r\n", port, "\r\n");
    }
    const std::lock_guard lock(mutex);
    floods.emplace_back([&, connection, subscribed_at = questions.load()] {
      Await("the question after the subscription", [&] { return questions > subscribed_at || ending; });
      std::string events;
      while (events.size() < 60'000) events += event;
      while (!ending && sentinel->SendTo(connection, events)) {
      }
    });
    return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
  });
  sentinel = &peer;
  auto client = ConnectPatiently(Concat("redis+sentinel://127.0.0.1:", peer.port(), "/mymaster"));
  Await("the first questions", [&] { return questions > 1; });
  const int before = questions;
  const Instant begin = Clock::System()->Now();
  Await("20 questions", [&] { return questions >= before + 20; });
  EXPECT_GE(Clock::System()->Now() - begin, absl::Milliseconds(500));
  named = next.port();
  Await("the switch to be followed", [&] { return PortOf(*client) == Concat(next.port()); });
  client.reset();
  ending = true;
  const std::lock_guard lock(mutex);
  for (std::thread& flood : floods) flood.join();
}

TEST_F(SentinelTest, Stop_WhileNoMasterAnswers_EndsWhatIsPending) {
  SentinelSet set;
  auto client = ConnectPatiently(set.url());
  ASSERT_NE(client, nullptr);
  set.master().Pause();
  auto pending = client->RunFuture(RedisCommand("GET").Key("k"));
  client.reset();
  EXPECT_EQ(pending.get().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace stockade
