// Transactions (MULTI, EXEC) at one server. redis_suite_test.cc and cluster_test.cc have what depends on more.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "redis/support/connect_to.h"
#include "redis/support/raw_peer.h"
#include "redis/support/redis_server.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::ConnectTo;
using testing::RawPeer;
using testing::RedisServer;
using testing::TcpProxy;

class RedisTransactionTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

RedisCommand Add(const std::string& key) { return RedisCommand("INCR").Key(key); }

std::string Show(const absl::StatusOr<std::vector<absl::StatusOr<RedisReply>>>& ran) {
  if (!ran.ok()) return ran.status().ToString();
  std::string shown;
  for (const absl::StatusOr<RedisReply>& reply : *ran) {
    shown += Concat(shown.empty() ? "" : "; ", reply.ok() ? reply->ToString() : reply.status().ToString());
  }
  return shown;
}

// What a transaction that does not run says, and that nothing of it has run.
void ExpectNothingRun(const RedisServer& server, const absl::Status& status, absl::StatusCode code,
                      const std::string& message) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_FALSE(RedisOutcomeUnknown(status)) << status;
  EXPECT_NE(status.message().find(message), std::string::npos) << status;
  EXPECT_EQ(server.Call({"GET", "n"}).type, '_') << status;
}

TEST_F(RedisTransactionTest, EveryFormOfCall_HasAReplyForEachCommand) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const std::string binary("\r\n\0$5\r\n", 8);
  const RedisCommand commands[] = {RedisCommand("SET").Key("k").Arg(binary), RedisCommand("GET").Key("none"), Add("n"),
                                   RedisCommand("MGET").Key("k").Key("none"), RedisCommand("PING")};
  const auto ran = redis->RunTransaction(commands);
  ASSERT_TRUE(ran.ok()) << ran.status();
  ASSERT_EQ(ran->size(), 5);
  EXPECT_EQ((*ran)[0]->text(), "OK");
  EXPECT_TRUE((*ran)[1]->is_nil());
  EXPECT_EQ((*ran)[2]->integer(), 1);
  EXPECT_EQ((*ran)[3]->elements()[0].text(), binary);
  EXPECT_EQ((*ran)[4]->text(), "PONG");
  const RedisCommand two[] = {Add("n"), Add("n")};
  const RedisCommand transaction = RedisCommand::Transaction(two);
  EXPECT_EQ(redis->Run(transaction)->ToString(), "[2, 3]");
  EXPECT_EQ(redis->RunFuture(transaction).get()->ToString(), "[4, 5]");
  std::promise<std::string> called;
  redis->RunAsync(transaction, [&](absl::StatusOr<RedisReply> reply) { called.set_value(reply->ToString()); });
  EXPECT_EQ(called.get_future().get(), "[6, 7]");
  const RedisCommand mixed[] = {Add("n"), transaction, Add("n")};
  const auto replies = redis->RunMany(mixed);
  EXPECT_EQ(replies[0]->ToString() + replies[1]->ToString() + replies[2]->ToString(), "8[9, 10]11");
  EXPECT_EQ(Show(redis->RunTransaction({})), "");
}

TEST_F(RedisTransactionTest, CommandFailsWhenItRuns_ItHasAStatus_TheOthersHaveRun) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisCommand commands[] = {RedisCommand("SET").Key("text").Arg("x"), Add("text"),
                                   RedisCommand("LPUSH").Key("text").Arg(1),
                                   RedisCommand("CONFIG").Arg("SET").Arg("requirepass-s3cret").Arg("s3cret"), Add("n")};
  const auto ran = redis->RunTransaction(commands);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_TRUE((*ran)[0].ok());
  EXPECT_EQ(RedisErrorCode((*ran)[1].status()), "ERR");
  EXPECT_EQ((*ran)[2].status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(RedisErrorCode((*ran)[2].status()), "WRONGTYPE");
  EXPECT_EQ(RedisErrorCode((*ran)[3].status()), "ERR");
  EXPECT_EQ((*ran)[3].status().message().find("s3cret"), std::string::npos) << (*ran)[3].status();
  EXPECT_EQ((*ran)[4]->integer(), 1);
}

TEST_F(RedisTransactionTest, ServerRefusesACommand_NothingRuns_AndTheStatusNamesIt) {
  RedisServer server({.users = {"till on nopass ~* &* +@all -append"}});
  const auto redis = ConnectTo(Concat("redis://till:x@127.0.0.1:", server.port()));
  const auto run = [&](const RedisCommand& second) {
    const RedisCommand commands[] = {Add("n"), second, Add("n")};
    return redis->RunTransaction(commands).status();
  };
  ExpectNothingRun(server, run(RedisCommand("NOSUCH").Arg("s3cret")), absl::StatusCode::kUnknown,
                   "redis answered: ERR unknown command 'NOSUCH'; command 2 of the transaction (NOSUCH) was refused, "
                   "and nothing was run");
  ExpectNothingRun(server, run(RedisCommand("GET")), absl::StatusCode::kUnknown, "wrong number of arguments");
  ExpectNothingRun(server, run(RedisCommand("APPEND").Key("k").Arg("x")), absl::StatusCode::kPermissionDenied,
                   "command 2 of the transaction (APPEND) was refused");
  const absl::Status secret = run(RedisCommand("CONFIG").Arg("s3cret"));
  ExpectNothingRun(server, secret, absl::StatusCode::kUnknown, "an answer to CONFIG may repeat a password");
  EXPECT_EQ(secret.message().find("s3cret"), std::string::npos) << secret;
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "1"}), "OK");
  ExpectNothingRun(server, run(RedisCommand("PING")), absl::StatusCode::kResourceExhausted,
                   "OOM command not allowed when used memory > 'maxmemory'.; command 1 of the transaction (INCR)");
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "0"}), "OK");
  EXPECT_TRUE(run(RedisCommand("PING")).ok());
}

TEST_F(RedisTransactionTest, CommandThatEndsOrNestsIt_IsInvalidArgument) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisCommand none = RedisCommand::Transaction({});
  for (const RedisCommand& command : {RedisCommand("multi"), RedisCommand("Exec"), RedisCommand("DISCARD"),
                                      RedisCommand("WATCH").Key("k"), RedisCommand("QUIT"), none}) {
    const RedisCommand commands[] = {Add("n"), command};
    ExpectNothingRun(server, redis->RunTransaction(commands).status(), absl::StatusCode::kInvalidArgument,
                     Concat(command.name(), " cannot be a command of a transaction; not sent"));
  }
}

TEST_F(RedisTransactionTest, UserWithoutMultiOrExec_IsPermissionDenied_NothingRunsAndTheConnectionStays) {
  RedisServer server({.users = {"no-multi on nopass ~* &* +@all -multi", "no-exec on nopass ~* &* +@all -exec",
                                "neither on nopass ~* &* +@all -@transaction"}});
  for (const std::string user : {"no-multi", "no-exec", "neither"}) {
    const auto redis = ConnectTo(Concat("redis://", user, ":x@127.0.0.1:", server.port()));
    const uint64_t generation = redis->ServerOf("n")->generation;
    const RedisCommand commands[] = {Add("n"), Add("n")};
    for (int i = 0; i < 3; ++i) {
      ExpectNothingRun(server, redis->RunTransaction(commands).status(), absl::StatusCode::kPermissionDenied,
                       user == "no-exec" ? "EXEC was refused, and nothing was run" : "MULTI was refused");
    }
    EXPECT_EQ(redis->Run(RedisCommand("ECHO").Arg("mine"))->text(), "mine");
    EXPECT_EQ(redis->ServerOf("n")->generation, generation);
  }
}

TEST_F(RedisTransactionTest, RightToMultiIsRevokedLater_OutcomeIsUnknown_ThenPermissionDenied) {
  RedisServer server({.users = {"till on nopass ~* &* +@all"}});
  const RedisCommand sets[] = {RedisCommand("SET").Key("k").Arg(1), RedisCommand("SET").Key("k").Arg(2)};
  const RedisCommand adds[] = {Add("k"), Add("k")};
  for (const std::span<const RedisCommand> commands : {std::span(sets), std::span(adds)}) {
    ASSERT_EQ(server.Call({"ACL", "SETUSER", "till", "+multi"}), "OK");
    const auto redis =
        ConnectTo(Concat("redis://till:x@127.0.0.1:", server.port()), {.command_timeout = absl::Minutes(1)});
    EXPECT_TRUE(redis->RunTransaction(commands).ok());
    ASSERT_EQ(server.Call({"ACL", "SETUSER", "till", "-multi"}), "OK");
    const absl::Status status = redis->RunTransaction(commands).status();
    EXPECT_TRUE(RedisOutcomeUnknown(status)) << status;
    EXPECT_EQ(redis->RunTransaction(commands).status().code(), absl::StatusCode::kPermissionDenied);
  }
}

// Another caller's command would be queued in a transaction that was not ended.
TEST_F(RedisTransactionTest, ExecIsRefusedWithoutEndingIt_ConnectionIsReplacedBeforeAnotherCommandIsAnswered) {
  std::atomic<bool> in_multi = false;
  const RawPeer peer([&](size_t connection, const std::string& command) {
    if (command == "PING") return std::string("+PONG\r\n");
    if (command == "INFO server") return std::string("$-1\r\n");
    if (command == "MULTI") return in_multi = true, std::string("+OK\r\n");
    if (command == "EXEC") return std::string("-ERR no such command\r\n");
    return std::string(connection == 0 && in_multi ? "+QUEUED\r\n" : "+done\r\n");
  });
  const auto redis = ConnectTo(testing::RedisUrl(peer.port()), {.command_timeout = absl::Minutes(1)});
  const RedisCommand commands[] = {Add("n")};
  const absl::Status status = redis->RunTransaction(commands).status();
  EXPECT_NE(status.message().find("EXEC was refused, and nothing was run"), std::string::npos) << status;
  EXPECT_EQ(redis->Run(RedisCommand("GET").Key("k").Idempotent())->text(), "done");
  EXPECT_EQ(peer.connections(), 2);
}

TEST_F(RedisTransactionTest, RepliesOfSomethingElse_OutcomeIsUnknown) {
  std::string exec;
  const RawPeer peer([&](size_t, const std::string& command) {
    static std::atomic<int> queued = 0;
    if (command == "PING") return std::string("+PONG\r\n");
    if (command == "INFO server") return std::string("$-1\r\n");
    if (command == "MULTI") return queued = 0, std::string("+OK\r\n");
    if (command == "EXEC") return queued == 0 ? std::string("*0\r\n") : exec;
    return ++queued, std::string("+QUEUED\r\n");
  });
  const auto redis = ConnectTo(testing::RedisUrl(peer.port()), {.command_timeout = absl::Minutes(1)});
  const RedisCommand commands[] = {Add("n"), Add("n")};
  for (const std::string reply : {"*1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "*-1\r\n", ":1\r\n", "+OK\r\n"}) {
    exec = reply;
    const absl::Status status = redis->RunTransaction(commands).status();
    EXPECT_TRUE(RedisOutcomeUnknown(status)) << status;
  }
  exec = "*2\r\n:1\r\n-ERR mine\r\n";
  EXPECT_EQ(redis->RunTransaction(commands)->at(1).status().message(), "redis answered: ERR mine");
}

TEST_F(RedisTransactionTest, ReplyLost_IsUnknownAndRanOnce_OrIsSentAgainAsAWhole) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()), {.command_timeout = absl::Minutes(1),
                                                                 .min_backoff = absl::Microseconds(1),
                                                                 .max_backoff = absl::Microseconds(1)});
  const RedisCommand adds[] = {Add("a"), Add("b").Idempotent()};
  const RedisCommand sets[] = {RedisCommand("SET").Key("x").Arg(1).Idempotent(), Add("c").Idempotent()};
  ASSERT_TRUE(redis->RunTransaction(adds).ok());
  const std::string wire = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:2\r\n:2\r\n";
  int64_t sent = 0;
  for (size_t bytes = 0; bytes < wire.size(); ++bytes) {
    testing::Await("a connection that runs transactions", [&] { return redis->RunTransaction({}).ok(); });
    proxy.CutReplyAfter(bytes);
    const absl::Status status = redis->RunTransaction(adds).status();
    EXPECT_TRUE(RedisOutcomeUnknown(status)) << bytes << status;
    EXPECT_EQ(server.Call({"MGET", "a", "b"}).items[0], std::to_string(bytes + 2));
    EXPECT_EQ(server.Call({"MGET", "a", "b"}).items[1], std::to_string(bytes + 2));
    testing::Await("a connection that runs transactions", [&] { return redis->RunTransaction({}).ok(); });
    proxy.CutReplyAfter(bytes);
    const auto again = redis->RunTransaction(sets);
    ASSERT_TRUE(again.ok()) << again.status();
    sent += 2;
    EXPECT_EQ((*again)[1]->integer(), sent);
  }
  testing::Await("a connection that runs transactions", [&] { return redis->RunTransaction({}).ok(); });
  proxy.DropReply();
  EXPECT_TRUE(RedisOutcomeUnknown(redis->RunTransaction(sets, {.retry = false}).status()));
  EXPECT_EQ(server.Call({"GET", "c"}), std::to_string(sent + 1));
}

// The empty transaction before the first one is no part of it.
TEST_F(RedisTransactionTest, ReplyToTheProofIsLost_NothingHasRunAndItGoesOn) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()), {.command_timeout = absl::Minutes(1)});
  const RedisCommand adds[] = {Add("n"), Add("n")};
  proxy.Hold();
  ExpectNothingRun(server, redis->RunTransaction(adds, {.timeout = absl::Milliseconds(30)}).status(),
                   absl::StatusCode::kDeadlineExceeded, "no reply to an empty transaction; not sent");
  proxy.Release();
  proxy.CloseAll();
  testing::Await("the next connection", [&] { return redis->Run(RedisCommand("PING")).ok(); });
  proxy.CutReplyAfter(3);
  EXPECT_EQ(Show(redis->RunTransaction(adds)), "1; 2");
}

TEST_F(RedisTransactionTest, WaitsForAConnection_RunsOnce) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()), {.command_timeout = absl::Minutes(1)});
  const RedisCommand adds[] = {Add("a"), Add("b")};
  ASSERT_TRUE(redis->RunTransaction(adds).ok());
  proxy.Refuse();
  proxy.CloseAll();
  testing::Await("the loss", [&] { return !redis->ServerOf("a", absl::ZeroDuration()).ok(); });
  std::vector<std::future<absl::StatusOr<RedisReply>>> waiting;
  for (int i = 0; i < 10; ++i) waiting.push_back(redis->RunFuture(RedisCommand::Transaction(adds)));
  std::thread caller([&] { EXPECT_TRUE(redis->RunTransaction(adds).ok()); });
  proxy.Accept();
  for (auto& future : waiting) EXPECT_TRUE(future.get().ok());
  caller.join();
  EXPECT_EQ(server.Call({"GET", "a"}), "12");
  EXPECT_EQ(server.Call({"GET", "b"}), "12");
}

TEST_F(RedisTransactionTest, ScriptWithin_RunsThoughTheServerHasForgottenIt) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisScript script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  const RedisCommand commands[] = {RedisCommand(script, {"n"}).Arg(2), Add("n"), RedisCommand(script, {"n"}).Arg(3)};
  EXPECT_EQ(Show(redis->RunTransaction(commands)), "2; 3; 6");
  ASSERT_EQ(server.Call({"SCRIPT", "FLUSH"}), "OK");
  EXPECT_EQ(Show(redis->RunTransaction(commands)), "8; 9; 12");
}

TEST_F(RedisTransactionTest, OnServer_OfAnother_IsAborted) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const RedisCommand adds[] = {Add("n"), Add("n")};
  ExpectNothingRun(server, redis->RunTransaction(adds, {.on_server = "another"}).status(), absl::StatusCode::kAborted,
                   "bound to the server with run id 'another'");
  EXPECT_EQ(Show(redis->RunTransaction(adds, {.on_server = *redis->ServerOf("n")->run_id})), "1; 2");
  ASSERT_EQ(server.Call({"DEL", "n"}), "1");
  ExpectNothingRun(server, redis->RunTransaction(adds, {.on_server = "another"}).status(), absl::StatusCode::kAborted,
                   "bound to the server with run id 'another'");
}

TEST_F(RedisTransactionTest, AtAReplica_WriteIsRefusedAndNothingRuns) {
  RedisServer master;
  RedisServer replica({.replica_of = master.Host()});
  const auto redis = ConnectTo(replica.url());
  const RedisCommand mixed[] = {RedisCommand("GET").Key("n"), Add("n")};
  testing::Await("the replica", [&] { return replica.Info("master_link_status") == "up"; });
  ExpectNothingRun(replica, redis->RunTransaction(mixed).status(), absl::StatusCode::kUnavailable, "READONLY");
  EXPECT_EQ(Show(redis->RunTransaction(std::span(mixed, 1))), "(nil)");
}

TEST_F(RedisTransactionTest, KeyOrArgAddedToIt_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(RedisCommand::Transaction({}).Arg("x"), "RedisCommand: Arg\\(\\) of a transaction");
  EXPECT_DEATH(RedisCommand::Transaction({}).Key("x"), "RedisCommand: Key\\(\\) of a transaction");
}

}  // namespace
}  // namespace stockade
