// What a client does with a server that is well.
#include "stockade/redis/redis_client.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "redis/support/connect_to.h"
#include "redis/support/raw_peer.h"
#include "redis/support/raw_redis.h"
#include "redis/support/redis_server.h"
#include "stockade/base/executor.h"
#include "stockade/base/process_name.h"
#include "stockade/base/strings.h"
#include "support/await.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::ConnectTo;
using testing::RedisServer;

class RedisClientTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

TEST_F(RedisClientTest, Run_EveryKindOfReply_IsWhatTheServerSaid) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  EXPECT_EQ(redis->Run(RedisCommand("SET").Key("k").Arg("v")).value(),
            RedisReply::Text(RedisReply::Kind::kStatus, "OK"));
  EXPECT_EQ(redis->Run(RedisCommand("GET").Key("k")).value().AsText().value(), "v");
  EXPECT_TRUE(redis->Run(RedisCommand("GET").Key("none")).value().is_nil());
  EXPECT_EQ(redis->Run(RedisCommand("INCRBY").Key("n").Arg(41)).value().integer(), 41);
  EXPECT_EQ(redis->Run(RedisCommand("MGET").Key("k").Key("none")).value().ToString(), "[\"v\", (nil)]");
}

TEST_F(RedisClientTest, Run_BinaryAndLargeValues_ComeBackAsTheyWere) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  std::string value(10'000'000, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31);
  ASSERT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg(value)).ok());
  EXPECT_TRUE(redis->Run(RedisCommand("GET").Key("k")).value().text() == value);
}

TEST_F(RedisClientTest, Run_ErrorOfTheServer_HasItsCode) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  ASSERT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg("v")).ok());
  const absl::Status wrong = redis->Run(RedisCommand("LPUSH").Key("k").Arg("v")).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(RedisErrorCode(wrong), "WRONGTYPE");
  EXPECT_FALSE(RedisOutcomeUnknown(wrong));
  const absl::Status unknown = redis->Run(RedisCommand("NOSUCH")).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(RedisErrorCode(unknown), "ERR");
  EXPECT_NE(unknown.message().find("unknown command"), std::string::npos) << unknown;
  // The connection is none the worse.
  EXPECT_TRUE(redis->Run(RedisCommand("PING")).ok());
}

TEST_F(RedisClientTest, Script_Unknown_IsLoadedOnce_ThenCalledByItsHash) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisScript add("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  EXPECT_EQ(redis->Run(RedisCommand(add, {"n"}).Arg(2)).value().integer(), 2);
  EXPECT_EQ(redis->Run(RedisCommand(add, {"n"}).Arg(3)).value().integer(), 5);
  EXPECT_EQ(testing::InfoField(server.Call({"INFO", "commandstats"}).text, "cmdstat_eval").substr(0, 8), "calls=1,");
  ASSERT_EQ(server.Call({"SCRIPT", "FLUSH"}), "OK");
  EXPECT_EQ(redis->Run(RedisCommand(add, {"n"}).Arg(4)).value().integer(), 9);
}

TEST_F(RedisClientTest, Script_ThatFails_IsItsError_AndRunsOnce) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisScript fail("redis.call('INCR', KEYS[1]) return redis.error_reply('MINE it is')");
  const absl::Status status = redis->Run(RedisCommand(fail, {"n"})).status();
  EXPECT_EQ(RedisErrorCode(status), "MINE");
  EXPECT_EQ(server.Call({"GET", "n"}), "1");
}

TEST_F(RedisClientTest, Script_ThatAnswersLikeAServerThatRefuses_RunsOnce_WithUnknownOutcome) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  int64_t runs = 0;
  for (const std::string word : {"LOADING", "MASTERDOWN", "NOSCRIPT", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "MOVED"}) {
    const std::string source = "redis.call('INCR', KEYS[1]) return redis.error_reply('" + word + " x')";
    const RedisScript script(source);
    for (const RedisCommand& command :
         {RedisCommand(script, {"n"}), RedisCommand("eval").Arg(source).Arg(1).Key("n"), RedisCommand(script, {"n"})}) {
      const absl::Status status = redis->Run(command, {.timeout = absl::Seconds(1)}).status();
      EXPECT_TRUE(RedisOutcomeUnknown(status)) << status;
      EXPECT_EQ(RedisErrorCode(status), word) << status;
      EXPECT_EQ(server.Call({"GET", "n"}), std::to_string(++runs)) << word;
    }
  }
}

TEST_F(RedisClientTest, Script_ThatMayRunTwice_IsSentAgainWhateverItAnswers) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisScript script(
      "if redis.call('INCR', KEYS[1]) < 3 then return redis.error_reply('LOADING x') end return 'done'");
  EXPECT_EQ(redis->Run(RedisCommand(script, {"n"}).Idempotent()).value().text(), "done");
}

TEST_F(RedisClientTest, Script_WithoutRetry_IsSentWithItsSourceButNotAgain) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisScript script("redis.call('INCR', KEYS[1]) return redis.error_reply('LOADING x')");
  for (const std::string runs : {"1", "2"}) {
    const absl::Status status =
        redis->Run(RedisCommand(script, {"n"}).Idempotent(), {.timeout = absl::Minutes(1), .retry = false}).status();
    EXPECT_EQ(RedisErrorCode(status), "LOADING") << status;
    EXPECT_EQ(server.Call({"GET", "n"}), runs);
  }
}

// A server that itself refuses says so in words of its own.
TEST_F(RedisClientTest, Script_AtAReplicaWithoutItsMaster_IsSentUntilItRuns) {
  RedisServer master;
  RedisServer replica({.replica_of = master.Host(), .config = {"replica-serve-stale-data no"}});
  const auto redis = ConnectTo(master.url());
  const auto at_replica = ConnectTo(replica.url(), {.wait_for_connection = false});
  testing::Await("the replica", [&] { return replica.Info("master_link_status") == "up"; });
  ASSERT_TRUE(at_replica->Run(RedisCommand("PING")).ok());
  const RedisScript script("return 'ran'");
  EXPECT_EQ(at_replica->Run(RedisCommand(script, {})).value().text(), "ran");
  ASSERT_EQ(replica.Call({"REPLICAOF", "127.0.0.1", "1"}), "OK");
  auto waits = at_replica->RunFuture(RedisCommand(script, {}), {.timeout = absl::Seconds(60)});
  EXPECT_EQ(replica.Call({"EVAL", "return 1", "0"}).text.substr(0, 10), "MASTERDOWN");
  ASSERT_EQ(replica.Call({"REPLICAOF", "NO", "ONE"}), "OK");
  EXPECT_EQ(waits.get().value().text(), "ran");
}

TEST_F(RedisClientTest, RunMany_MixedResults_StandInTheOrderOfTheCommands) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisScript two("return 2");
  std::vector<RedisCommand> commands;
  for (int i = 0; i < 1000; ++i) commands.push_back(RedisCommand("APPEND").Key("k").Arg("x"));
  commands.push_back(RedisCommand("LPUSH").Key("k").Arg("v"));
  commands.push_back(RedisCommand(two, {}));
  const std::vector<absl::StatusOr<RedisReply>> replies = redis->RunMany(commands);
  ASSERT_EQ(replies.size(), 1002);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(replies[i].value().integer(), i + 1);
  EXPECT_EQ(RedisErrorCode(replies[1000].status()), "WRONGTYPE");
  EXPECT_EQ(replies[1001].value().integer(), 2);
  EXPECT_TRUE(redis->RunMany({}).empty());
}

TEST_F(RedisClientTest, RunFuture_ManyAtOnce_EachHasItsOwn) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  std::vector<std::future<absl::StatusOr<RedisReply>>> futures;
  for (int i = 0; i < 1000; ++i) futures.push_back(redis->RunFuture(RedisCommand("ECHO").Arg(i)));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(futures[i].get().value().text(), std::to_string(i));
}

TEST_F(RedisClientTest, RunAsync_CallsBackOnTheExecutor_OnceEach_InOrder) {
  RedisServer server;
  ThreadPool pool(1);
  std::promise<std::thread::id> pool_thread;
  pool.Schedule([&] { pool_thread.set_value(std::this_thread::get_id()); });
  const std::thread::id expected = pool_thread.get_future().get();
  const auto redis = ConnectTo(server.url(), {.callback_executor = &pool});
  std::vector<std::string> seen;  // By the pool's only thread.
  std::promise<void> all;
  for (int i = 0; i < 100; ++i) {
    redis->RunAsync(RedisCommand("ECHO").Arg(i), [&](absl::StatusOr<RedisReply> reply) {
      EXPECT_EQ(std::this_thread::get_id(), expected);
      seen.emplace_back(reply.value().text());
      if (seen.size() == 100) all.set_value();
    });
  }
  all.get_future().get();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], std::to_string(i));
}

TEST_F(RedisClientTest, RunAsync_CallbackThatThrowsOrCallsAgain_DisturbsNobody) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  std::promise<std::string> again;
  redis->RunAsync(RedisCommand("PING"), [](const absl::StatusOr<RedisReply>&) { throw std::runtime_error("mine"); });
  redis->RunAsync(RedisCommand("PING"), [&](const absl::StatusOr<RedisReply>&) {
    again.set_value(std::string(redis->Run(RedisCommand("ECHO").Arg("again")).value().text()));
  });
  EXPECT_EQ(again.get_future().get(), "again");
}

// Whether the executor throws before it has run the callback or afterwards, it runs once.
TEST_F(RedisClientTest, RunAsync_ExecutorThrows_TheCallbackRunsOnceAllTheSame) {
  struct ThrowingExecutor final : Executor {
    void Schedule(Task task) override {
      if (runs_first) task();
      throw std::runtime_error("full");
    }
    std::atomic<bool> runs_first = false;
  };
  RedisServer server;
  ThrowingExecutor executor;
  const auto redis = ConnectTo(server.url(), {.callback_executor = &executor});
  std::atomic<int> calls = 0;
  for (const bool runs_first : {false, true}) {
    executor.runs_first = runs_first;
    std::promise<std::string> called;
    redis->RunAsync(RedisCommand("ECHO").Arg("x"), [&](absl::StatusOr<RedisReply> reply) {
      if (++calls % 2 == 1) called.set_value(std::string(reply.value().text()));
    });
    EXPECT_EQ(called.get_future().get(), "x");
    EXPECT_TRUE(redis->Run(RedisCommand("PING")).ok());
    EXPECT_EQ(calls.exchange(0), 1);
  }
}

TEST_F(RedisClientTest, RunAsync_WithoutACallback_AbortsInTheCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  RedisServer server;
  const auto redis = ConnectTo(server.url(), {.name = "shop"});
  EXPECT_DEATH(redis->RunAsync(RedisCommand("PING"), nullptr), "redis 'shop': RunAsync\\(\\) without a callback");
}

TEST_F(RedisClientTest, Connect_UserDatabaseAndName_AreTheServers) {
  RedisServer server({.users = {"alice on >s3cret/ ~* &* +@all"}});
  const auto redis =
      ConnectTo("redis://alice:s3cret%2F@127.0.0.1:" + std::to_string(server.port()) + "/3?client_name=till");
  ASSERT_NE(redis, nullptr);
  EXPECT_EQ(redis->Run(RedisCommand("ACL").Arg("WHOAMI")).value().text(), "alice");
  EXPECT_EQ(redis->Run(RedisCommand("CLIENT").Arg("GETNAME")).value().text(), "till");
  ASSERT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg("v")).ok());
  EXPECT_EQ(server.Call({"GET", "k"}).type, '_');
}

TEST_F(RedisClientTest, Connect_UrlWithoutName_ServerListsTheProcess) {
  const RedisServer server;
  const auto redis = ConnectTo(server.url());
  ASSERT_NE(redis, nullptr);
  const std::string name(redis->Run(RedisCommand("CLIENT").Arg("GETNAME")).value().text());
  EXPECT_EQ(name, base_internal::ProcessName());
  EXPECT_EQ(name, Concat("redis_client_test-", getpid()));
}

TEST_F(RedisClientTest, Connect_NameOfTheProcessIsRefused_IsUsedWithout) {
  RedisServer server({.users = {"mute on nopass ~* &* +@all -client"}, .config = {"rename-command CLIENT HIDDEN"}});
  for (const std::string user : {"", "mute:none@"}) {
    const auto redis = ConnectTo(Concat("redis://", user, "127.0.0.1:", server.port()));
    ASSERT_NE(redis, nullptr);
    EXPECT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg("v")).ok());
    EXPECT_TRUE(redis->ServerOf("k", absl::Minutes(1)).value().run_id.ok());
  }
}

// Never as another user than the URL's.
TEST_F(RedisClientTest, Connect_UserWithoutAPassword_IsThatUser) {
  RedisServer server({.users = {"app nopass on ~* &* +@all", "alice on >secret ~* &* +@all"}});
  const std::string at = "127.0.0.1:" + std::to_string(server.port());
  const auto redis = ConnectTo("redis://app@" + at);
  ASSERT_NE(redis, nullptr);
  EXPECT_EQ(redis->Run(RedisCommand("ACL").Arg("WHOAMI")).value().text(), "app");
  for (const std::string user : {"alice", "nobody"}) {
    const absl::Status refused = RedisClient::Connect("redis://" + user + "@" + at).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated) << refused;
    EXPECT_EQ(refused.message().find(user), std::string::npos) << "it may be a password: " << refused;
  }
}

TEST_F(RedisClientTest, ReadFromReplica_OfOneServer_IsThatServer_WritesAreRefused) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisCallOptions from_replica = {.read_from = RedisReadFrom::kReplica};
  ASSERT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg("v")).ok());
  EXPECT_EQ(redis->Run(RedisCommand("GET").Key("k"), from_replica).value().text(), "v");
  EXPECT_EQ(redis->RunFuture(RedisCommand("DEL").Key("k"), from_replica).get().status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(server.Call({"GET", "k"}), "v");
}

TEST_F(RedisClientTest, Connect_UnixSocket_Works) {
  RedisServer server({.unix_socket = true});
  const auto redis = ConnectTo("unix://" + server.unix_socket());
  ASSERT_NE(redis, nullptr);
  EXPECT_EQ(redis->Run(RedisCommand("PING")).value().text(), "PONG");
}

TEST_F(RedisClientTest, Connect_WrongOrMissingPassword_IsUnauthenticated_AndNeverShown) {
  RedisServer server({.password = "right"});
  const std::string at = "127.0.0.1:" + std::to_string(server.port());
  const absl::Status wrong = RedisClient::Connect("redis://:wr0ng@" + at).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kUnauthenticated) << wrong;
  EXPECT_EQ(wrong.message().find("wr0ng"), std::string::npos) << wrong;
  EXPECT_EQ(RedisClient::Connect("redis://" + at).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_NE(ConnectTo("redis://:right@" + at), nullptr);
}

// Such a server repeats what it was sent: "unknown command 'AUTH', with args beginning with: 's3cr3tpw'".
TEST_F(RedisClientTest, Connect_ServerRepeatsThePassword_IsNeverShown) {
  RedisServer server({.config = {"rename-command AUTH HIDDEN", "rename-command HELLO HIDDEN2"}});
  const std::string at = "127.0.0.1:" + std::to_string(server.port());
  for (const std::string user : {"", "app"}) {
    const absl::Status status = RedisClient::Connect("redis://" + user + ":s3cr3tpw@" + at).status();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(RedisErrorCode(status), "ERR");
    EXPECT_EQ(status.message().find("s3cr3tpw"), std::string::npos) << status;
    EXPECT_NE(status.message().find("AUTH"), std::string::npos) << status;
  }
}

TEST_F(RedisClientTest, Connect_PeerRepeatsThePasswordAnywhere_IsNeverShown) {
  for (const std::string hostile :
       {"-s3cr3tpw\r\n", "-ERR s3cr3tpw\r\n", "-WRONGPASS s3cr3tpw\r\n", "?s3cr3tpw\r\n", "+s3cr3tpw\r\n",
        "$8\r\ns3cr3tpw\r\n", "*1\r\n$8\r\ns3cr3tpw\r\n", "+OK\r\n-ERR s3cr3tpw\r\n"}) {
    for (const std::string asked : {"AUTH", "CLIENT", "SELECT", "PING"}) {
      const testing::RawPeer peer([&](size_t, const std::string& command) {
        if (command.starts_with(asked)) return hostile;
        return std::string(command == "PING" ? "+PONG\r\n" : "+OK\r\n");
      });
      const absl::Status status =
          RedisClient::Connect("redis://:s3cr3tpw@127.0.0.1:" + std::to_string(peer.port()) + "/1?client_name=till")
              .status();
      EXPECT_FALSE(status.ok()) << hostile << asked;
      EXPECT_EQ(status.ToString().find("s3cr3tpw"), std::string::npos) << status;
      EXPECT_EQ(RedisErrorCode(status).find("s3cr3tpw"), std::string::npos);
    }
  }
}

TEST_F(RedisClientTest, Connect_PingHasAnotherCommandsAnswer_IsRefused) {
  RedisServer server({.config = {"rename-command PING HIDDEN", "rename-command TIME PING"}});
  const absl::Status status = RedisClient::Connect(server.url()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_NE(status.message().find("a reply to PING that belongs to another command (array)"), std::string::npos)
      << status;
}

TEST_F(RedisClientTest, Connect_MoreThanTheAnswersHasCome_IsRefused) {
  for (const std::string stray : {"+OK\r\n", "+O", "*2\r\n", "*2\r\n:1\r\n", "$5\r\nab"}) {
    const testing::RawPeer peer([&](size_t, const std::string& command) {
      return command == "PING" ? std::string("+PONG\r\n") : "$-1\r\n" + stray;
    });
    const absl::Status status = RedisClient::Connect("redis://127.0.0.1:" + std::to_string(peer.port())).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << stray << status;
  }
}

TEST_F(RedisClientTest, Run_CommandWithAPassword_ErrorShowsItsCodeOnly) {
  RedisServer server({.config = {"rename-command AUTH HIDDEN", "rename-command CONFIG HIDDEN2"}});
  const auto redis = ConnectTo(server.url());
  for (const RedisCommand& command : {
           RedisCommand("auth").Arg("s3cr3tpw"),
           RedisCommand("CONFIG").Arg("SET").Arg("requirepass").Arg("s3cr3tpw"),
           RedisCommand("ACL").Arg("SETUSER").Arg("app").Arg("s3cr3tpw"),
           RedisCommand("HELLO").Arg(2).Arg("s3cr3tpw"),
           RedisCommand("NOSUCH").Arg("s3cr3tpw"),
       }) {
    for (const absl::Status& status : {redis->Run(command).status(), redis->RunFuture(command).get().status(),
                                       redis->RunMany({&command, 1})[0].status()}) {
      EXPECT_EQ(RedisErrorCode(status), "ERR") << status;
      EXPECT_EQ(status.message().find("s3cr3tpw"), std::string::npos) << status;
    }
  }
  EXPECT_NE(redis->Run(RedisCommand("NOSUCH")).status().message().find("unknown command 'NOSUCH'"), std::string::npos);
}

TEST_F(RedisClientTest, Connect_PasswordWhereNoneIsSet_IsUnauthenticated) {
  RedisServer server;
  const absl::Status status =
      RedisClient::Connect("redis://:s3cr3tpw@127.0.0.1:" + std::to_string(server.port())).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_NE(status.message().find("the URL has a password, but the server has none"), std::string::npos) << status;
  const auto redis = ConnectTo(server.url());
  EXPECT_EQ(redis->Run(RedisCommand("AUTH").Arg("s3cr3tpw")).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(RedisClientTest, Connect_DatabaseThatTheServerLacks_IsInvalidArgument_NamesIt) {
  for (const std::string password : {"", "right"}) {
    RedisServer server({.password = password});
    const std::string url =
        "redis://" + (password.empty() ? "" : ":" + password + "@") + "127.0.0.1:" + std::to_string(server.port());
    const absl::Status status = RedisClient::Connect(url + "/99").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find("database 99 of the URL"), std::string::npos) << status;
  }
  RedisServer node({.cluster = true});
  const absl::Status status = RedisClient::Connect(node.url() + "/1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find("database 1 of the URL"), std::string::npos) << status;
}

TEST_F(RedisClientTest, Connect_TooManyClients_IsUnavailable_SaysSo) {
  RedisServer server({.config = {"maxclients 1"}});
  const auto first = ConnectTo(server.url());
  for (const std::string user : {"", ":s3cr3tpw@"}) {
    const absl::Status status =
        RedisClient::Connect("redis://" + user + "127.0.0.1:" + std::to_string(server.port())).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
}

TEST_F(RedisClientTest, Connect_UserWhoMayNotPing_IsConnected) {
  RedisServer server({.users = {"bob on >b ~* +get"}});
  const auto redis = ConnectTo("redis://bob:b@127.0.0.1:" + std::to_string(server.port()));
  ASSERT_NE(redis, nullptr);
  EXPECT_TRUE(redis->Run(RedisCommand("GET").Key("k")).ok());
  EXPECT_EQ(redis->Run(RedisCommand("DEL").Key("k")).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(RedisClientTest, Connect_NobodyListens_IsUnavailable_NamesTheEndpoint) {
  RedisServer server;
  const uint16_t port = server.port();
  server.Stop();
  const absl::Status status = RedisClient::Connect("redis://127.0.0.1:" + std::to_string(port)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "cannot connect to 127.0.0.1:" + std::to_string(port) + ": Connection refused");
  EXPECT_EQ(RedisClient::Connect("redis://no-such-host.invalid").status().code(), absl::StatusCode::kUnavailable);
  const absl::Status no_socket = RedisClient::Connect("unix:///no/such/socket").status();
  EXPECT_EQ(no_socket.message(), "cannot connect to unix:/no/such/socket: No such file or directory");
}

TEST_F(RedisClientTest, Connect_BadUrlOrOptions_IsRefused) {
  EXPECT_EQ(RedisClient::Connect("http://x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RedisClient::Connect("redis://127.0.0.1", {.max_reply_bytes = 0}).status().message(),
            "RedisOptions.max_reply_bytes must be more than 0");
}

TEST_F(RedisClientTest, Connect_PausedServer_IsUnavailableInTime) {
  RedisServer server;
  server.Pause();
  const absl::Status status = RedisClient::Connect(server.url(), {.connect_timeout = absl::Milliseconds(200)}).status();
  server.Resume();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

// How often all threads but this one have given up a processor.
int64_t SwitchesOfOthers() {
  int64_t switches = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      const size_t name = line.find("ctxt_switches:");
      if (name != std::string::npos) switches += std::stoll(line.substr(line.find(':') + 1));
    }
  }
  return switches;
}

TEST_F(RedisClientTest, Connect_WithoutWaiting_ServerAway_CommandsWaitForIt) {
  RedisServer server;
  server.Kill();
  const auto redis = ConnectTo(server.url(), {.wait_for_connection = false});
  ASSERT_NE(redis, nullptr);
  const absl::Status away = redis->Run(RedisCommand("PING"), {.timeout = absl::Milliseconds(300)}).status();
  EXPECT_EQ(away.code(), absl::StatusCode::kUnavailable) << away;
  EXPECT_NE(away.message().find("not sent"), std::string::npos) << away;
  auto pong = redis->RunFuture(RedisCommand("PING"), {.timeout = absl::Seconds(60)});
  server.Restart();
  EXPECT_EQ(pong.get().value().text(), "PONG");
}

TEST_F(RedisClientTest, Connect_WithoutWaiting_TheServerRefuses_ServerOfSaysIt) {
  RedisServer server({.password = "right"});
  const std::string url = "redis://:wrong@127.0.0.1:" + std::to_string(server.port());
  const auto redis = ConnectTo(url, {.wait_for_connection = false});
  ASSERT_NE(redis, nullptr);
  absl::Status refused;
  testing::Await("the refusal", [&] {
    refused = redis->ServerOf("k", absl::ZeroDuration()).status();
    return refused.message().find("connecting") == std::string::npos;
  });
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated) << refused;
}

TEST_F(RedisClientTest, Run_OfALoneCaller_WakesNoOtherThread) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  EXPECT_TRUE(redis->Run(RedisCommand("PING")).ok());
  int64_t before = SwitchesOfOthers();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(redis->Run(RedisCommand("PING")).ok());
  EXPECT_LT(SwitchesOfOthers() - before, 100);
  // Where another thread does take the replies, it shows.
  before = SwitchesOfOthers();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(redis->RunFuture(RedisCommand("PING")).get().ok());
  EXPECT_GT(SwitchesOfOthers() - before, 100);
}

TEST_F(RedisClientTest, ManyThreads_ShareOneConnection) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(redis->Run(RedisCommand("INCR").Key("n")).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.Call({"GET", "n"}), "1600");
  // This one's, and that of the call that counts.
  EXPECT_EQ(testing::InfoField(server.Call({"INFO", "clients"}).text, "connected_clients"), "2");
}

}  // namespace
}  // namespace stockade
