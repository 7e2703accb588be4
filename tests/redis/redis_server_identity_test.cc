// Which server process a connection is to, and commands that are bound to one.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "redis/support/connect_to.h"
#include "redis/support/raw_peer.h"
#include "redis/support/redis_server.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::ConnectTo;
using testing::RawPeer;
using testing::RedisServer;
using testing::RedisServerOptions;
using testing::RedisUrl;
using testing::Scaled;
using testing::TcpProxy;

constexpr char kForeign[] = "0123456789012345678901234567890123456789";

class RedisServerIdentityTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

RedisCommand Incr(const std::string& key = "n") { return RedisCommand("INCR").Key(key); }

std::string RunIdOf(RedisClient& redis) {
  const absl::StatusOr<RedisServerIdentity> server = redis.ServerOf("n", absl::Minutes(1));
  EXPECT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(server.ok() && server->run_id.ok()) << server->run_id.status();
  return server.ok() && server->run_id.ok() ? *server->run_id : "";
}

// What the server with an unknown run id can be used for.
void ExpectUnknown(RedisClient& redis, const std::string& reason) {
  const absl::StatusOr<RedisServerIdentity> server = redis.ServerOf("n");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(server->run_id.status().code(), absl::StatusCode::kFailedPrecondition) << server->run_id.status();
  EXPECT_NE(server->run_id.status().message().find(reason), std::string::npos) << server->run_id.status();
  EXPECT_GT(server->generation, 0);
  const absl::Status bound = redis.Run(Incr(), {.on_server = kForeign}).status();
  EXPECT_EQ(bound.code(), absl::StatusCode::kAborted) << bound;
  EXPECT_FALSE(RedisOutcomeUnknown(bound));
  EXPECT_NE(bound.message().find(Concat("'", kForeign, "', but the run id is unknown: 127.0.0.1:")), std::string::npos)
      << bound;
  EXPECT_NE(bound.message().find(reason), std::string::npos) << bound;
}

TEST_F(RedisServerIdentityTest, OnServer_OfThisServer_EveryFormOfCallRuns) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  const std::string run_id = RunIdOf(*redis);
  EXPECT_EQ(run_id, server.Info("run_id"));
  EXPECT_EQ(redis->Run(Incr(), {.on_server = run_id}).value().integer(), 1);
  const RedisCommand two[] = {Incr(), Incr()};
  EXPECT_EQ(redis->RunMany(two, {.on_server = run_id})[1].value().integer(), 3);
  EXPECT_EQ(redis->RunFuture(Incr(), {.on_server = run_id}).get().value().integer(), 4);
  std::promise<int64_t> called;
  redis->RunAsync(Incr(), [&](absl::StatusOr<RedisReply> reply) { called.set_value(reply.value().integer()); },
                  {.on_server = run_id});
  EXPECT_EQ(called.get_future().get(), 5);
  const RedisScript script("return redis.call('INCR', KEYS[1])");
  EXPECT_EQ(redis->Run(RedisCommand(script, {"n"}), {.on_server = run_id}).value().integer(), 6);
}

TEST_F(RedisServerIdentityTest, OnServer_OfAnother_EveryFormOfCallIsAbortedAndNothingIsSent) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(RedisUrl(proxy.port()));
  const std::string run_id = RunIdOf(*redis);
  const uint64_t sent = proxy.counts().to_server;
  const absl::Status status = redis->Run(Incr(), {.on_server = kForeign}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(RedisOutcomeUnknown(status));
  EXPECT_EQ(status.message(), Concat("redis 'default': the command is bound to the server with run id '", kForeign,
                                     "', but 127.0.0.1:", proxy.port(), " has run id '", run_id, "'; not sent"));
  const RedisCommand two[] = {Incr(), Incr()};
  for (const auto& reply : redis->RunMany(two, {.on_server = kForeign})) {
    EXPECT_TRUE(absl::IsAborted(reply.status())) << reply.status();
  }
  EXPECT_TRUE(absl::IsAborted(redis->RunFuture(Incr(), {.on_server = kForeign}).get().status()));
  std::promise<absl::Status> called;
  redis->RunAsync(Incr(), [&](const absl::StatusOr<RedisReply>& reply) { called.set_value(reply.status()); },
                  {.on_server = kForeign});
  EXPECT_TRUE(absl::IsAborted(called.get_future().get()));
  EXPECT_EQ(proxy.counts().to_server, sent);
  EXPECT_EQ(redis->Run(Incr()).value().integer(), 1);
}

TEST_F(RedisServerIdentityTest, OnServer_Empty_IsInvalidArgument) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  for (const absl::Status& status :
       {redis->Run(Incr(), {.on_server = ""}).status(), redis->RunFuture(Incr(), {.on_server = ""}).get().status()}) {
    EXPECT_EQ(status, absl::InvalidArgumentError("RedisCallOptions.on_server must not be empty; not sent"));
  }
  EXPECT_EQ(server.Call({"GET", "n"}).type, '_');
}

TEST_F(RedisServerIdentityTest, ServerOf_AfterALostConnection_IsTheSameServerWithALargerGeneration) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(RedisUrl(proxy.port()));
  const RedisServerIdentity before = redis->ServerOf("n").value();
  EXPECT_EQ(redis->ServerOf("n").value().generation, before.generation);
  ASSERT_EQ(server.Call({"CONFIG", "RESETSTAT"}), "OK");
  proxy.CloseAll();
  ASSERT_TRUE(proxy.Await([](const TcpProxy::Counts& counts) { return counts.accepted == 2; }));
  Await("the next connection", [&] {
    const absl::StatusOr<RedisServerIdentity> now = redis->ServerOf("n", absl::Minutes(1));
    return now.ok() && now->generation > before.generation;
  });
  EXPECT_EQ(RunIdOf(*redis), before.run_id.value());
  EXPECT_EQ(redis->Run(Incr(), {.on_server = before.run_id.value()}).value().integer(), 1);
}

TEST_F(RedisServerIdentityTest, ServerOf_WithoutAConnection_WaitsForItOrIsUnavailable) {
  RedisServer server;
  TcpProxy proxy(server.port());
  proxy.Refuse();
  const auto redis = ConnectTo(RedisUrl(proxy.port()), {.wait_for_connection = false});
  for (const absl::Duration timeout : {-absl::InfiniteDuration(), absl::ZeroDuration(), absl::Milliseconds(20)}) {
    const absl::Status status = redis->ServerOf("n", timeout).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(status.message().find("redis 'default': not connected: "), 0) << status;
  }
  auto waits = std::async(std::launch::async, [&] { return RunIdOf(*redis); });
  proxy.Accept();
  EXPECT_EQ(waits.get(), server.Info("run_id"));
  EXPECT_EQ(redis->ServerOf("n", absl::ZeroDuration()).value().run_id.value(), server.Info("run_id"));
}

TEST_F(RedisServerIdentityTest, Restart_OrderlyOrByKill_IsAnotherServer) {
  RedisServer server({.appendonly = true});
  const auto redis = ConnectTo(server.url(), {.command_timeout = absl::Minutes(1)});
  const std::string first = RunIdOf(*redis);
  EXPECT_EQ(redis->Run(Incr(), {.on_server = first}).value().integer(), 1);
  server.Stop();
  server.Restart();
  ASSERT_TRUE(redis->Run(RedisCommand("PING").Idempotent()).ok());
  const std::string second = RunIdOf(*redis);
  EXPECT_NE(second, first);
  EXPECT_TRUE(absl::IsAborted(redis->Run(Incr(), {.on_server = first}).status()));
  EXPECT_EQ(redis->Run(Incr(), {.on_server = second}).value().integer(), 2);
  server.Kill();
  auto waits_in_vain = redis->RunFuture(Incr(), {.on_server = second});
  std::thread caller(
      [&] { EXPECT_TRUE(absl::IsAborted(redis->Run(Incr().Idempotent(), {.on_server = second}).status())); });
  server.Restart();
  const absl::Status status = waits_in_vain.get().status();
  // It may have been sent to the server that was killed.
  EXPECT_TRUE(absl::IsAborted(status) || RedisOutcomeUnknown(status)) << status;
  caller.join();
  EXPECT_EQ(server.Call({"GET", "n"}), "2");
}

TEST_F(RedisServerIdentityTest, OnServer_WaitsForAConnection_RunsThereOrIsAborted) {
  RedisServer first, second;
  TcpProxy proxy(first.port());
  const auto redis = ConnectTo(RedisUrl(proxy.port()), {.command_timeout = absl::Minutes(1)});
  const std::string run_id = RunIdOf(*redis);
  for (const RedisServer* next : {&first, &second}) {
    proxy.Refuse();
    proxy.CloseAll();
    Await("the loss", [&] { return !redis->ServerOf("n", absl::ZeroDuration()).ok(); });
    std::vector<std::future<absl::StatusOr<RedisReply>>> bound, free;
    for (int i = 0; i < 3; ++i) {
      bound.push_back(redis->RunFuture(Incr("bound"), {.on_server = run_id}));
      free.push_back(redis->RunFuture(Incr("free")));
    }
    std::vector<std::thread> callers;
    for (const bool idempotent : {false, true}) {
      callers.emplace_back([&, idempotent] {
        const RedisCommand three[] = {Incr("bound"), idempotent ? Incr("bound").Idempotent() : Incr("bound"),
                                      Incr("bound")};
        for (const auto& reply : redis->RunMany(three, {.on_server = run_id})) {
          EXPECT_EQ(reply.status().code(), next == &first ? absl::StatusCode::kOk : absl::StatusCode::kAborted);
        }
      });
    }
    proxy.SwitchTo(next->port());
    proxy.Accept();
    for (auto& future : bound) {
      EXPECT_EQ(future.get().status().code(), next == &first ? absl::StatusCode::kOk : absl::StatusCode::kAborted);
    }
    for (auto& future : free) EXPECT_TRUE(future.get().ok());
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(first.Call({"GET", "bound"}), "9");
  EXPECT_EQ(second.Call({"GET", "bound"}).type, '_');
  EXPECT_EQ(second.Call({"GET", "free"}), "3");
}

TEST_F(RedisServerIdentityTest, OnServer_ReplyLostAndServerSwitched_IsAbortedWithUnknownOutcome) {
  RedisServer first, second;
  TcpProxy proxy(first.port());
  const auto redis = ConnectTo(RedisUrl(proxy.port()), {.command_timeout = absl::Minutes(1)});
  const std::string run_id = RunIdOf(*redis);
  proxy.Hold();
  auto lost = redis->RunFuture(Incr().Idempotent(), {.on_server = run_id});
  ASSERT_TRUE(proxy.Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
  proxy.SwitchTo(second.port());
  proxy.Release();
  const absl::Status status = lost.get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(RedisOutcomeUnknown(status)) << status;
  EXPECT_EQ(first.Call({"GET", "n"}), "1");
  EXPECT_EQ(second.Call({"GET", "n"}).type, '_');
}

TEST_F(RedisServerIdentityTest, Info_NotYetAnswered_NoCommandIsSent) {
  std::mutex mutex;
  std::vector<std::string> commands;
  RawPeer peer([&](size_t, const std::string& command) {
    const std::lock_guard lock(mutex);
    commands.push_back(command);
    return std::string(command == "INFO server" ? "" : command == "PING" ? "+PONG\r\n" : "+OK\r\n");
  });
  const auto redis = ConnectTo(Concat("redis://:secret@127.0.0.1:", peer.port(), "/3?client_name=till"),
                               {.connect_timeout = absl::Minutes(1), .wait_for_connection = false});
  auto waits = redis->RunFuture(RedisCommand("SET").Key("k").Arg("v"), {.timeout = absl::Minutes(1)});
  const std::vector<std::string> handshake = {"AUTH secret", "CLIENT SETNAME till", "SELECT 3", "PING", "INFO server"};
  Await("the handshake", [&] {
    const std::lock_guard lock(mutex);
    return commands.size() >= handshake.size();
  });
  EXPECT_FALSE(redis->ServerOf("k", absl::ZeroDuration()).ok());
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(commands, handshake);
  }
  ASSERT_TRUE(peer.SendTo(0, "$14\r\nrun_id:abc\r\nx:\r\n"));
  EXPECT_TRUE(waits.get().ok());
  EXPECT_EQ(RunIdOf(*redis), "abc");
}

TEST_F(RedisServerIdentityTest, Info_UserWithoutTheRight_RunIdIsUnknown_CommandsWork) {
  RedisServer server({.users = {"till on >secret ~* &* +@all -info", "mute on nopass ~* &* +@all -info -ping"}});
  const std::string at = Concat("127.0.0.1:", server.port());
  for (const std::string user : {"till:secret", "mute:none"}) {
    const auto redis = ConnectTo(Concat("redis://", user, "@", at));
    ASSERT_NE(redis, nullptr);
    EXPECT_TRUE(redis->Run(Incr()).ok());
    ExpectUnknown(*redis, "it refuses INFO: redis answered: NOPERM");
    EXPECT_EQ(RedisErrorCode(redis->ServerOf("n").value().run_id.status()), "NOPERM");
  }
  EXPECT_EQ(server.Call({"GET", "n"}), "2");
}

TEST_F(RedisServerIdentityTest, Info_DoesNotExistOrIsLargerThanTheBound_RunIdIsUnknown_CommandsWork) {
  RedisServer without({.config = {"rename-command INFO HIDDEN"}});
  const auto renamed = ConnectTo(without.url());
  EXPECT_TRUE(renamed->Run(Incr()).ok());
  ExpectUnknown(*renamed, "it refuses INFO: redis answered: ERR unknown command 'INFO'");
  RedisServer server;
  const auto small = ConnectTo(server.url(), {.max_reply_bytes = 100});
  EXPECT_TRUE(small->Run(Incr()).ok());
  ExpectUnknown(*small, "it does not answer INFO: redis: a reply is larger than max_reply_bytes (100)");
}

// As proxies do that do not know the command.
TEST_F(RedisServerIdentityTest, Info_EndsTheConnection_RunIdIsUnknown_CommandsWork) {
  RedisServer server;
  TcpProxy proxy(server.port());
  proxy.CutReplyAfter(std::string("+PONG\r\n+OK\r\n").size());
  const auto redis = ConnectTo(RedisUrl(proxy.port()));
  EXPECT_EQ(redis->Run(Incr()).value().integer(), 1);
  ExpectUnknown(*redis, "it does not answer INFO: ");
  EXPECT_EQ(proxy.counts().accepted, 2);
}

// As some proxies do at commands that they do not know.
TEST_F(RedisServerIdentityTest, NameOfTheProcess_EndsTheConnection_RunIdIsKnown_CommandsWork) {
  RedisServer server;
  TcpProxy proxy(server.port());
  proxy.CutReplyAfter(std::string("+PONG\r\n").size());
  const auto redis = ConnectTo(RedisUrl(proxy.port()));
  EXPECT_TRUE(redis->Run(RedisCommand("CLIENT").Arg("GETNAME")).value().is_nil());
  EXPECT_EQ(RunIdOf(*redis), server.Info("run_id"));
  EXPECT_EQ(proxy.counts().accepted, 2);
}

TEST_F(RedisServerIdentityTest, Info_SaysNonsense_RunIdIsUnknownOrTheConnectionIsRefused) {
  std::string info;
  const RawPeer peer([&](size_t, const std::string& command) {
    return command == "INFO server" ? info : std::string(command == "PING" ? "+PONG\r\n" : ":1\r\n");
  });
  const std::string url = RedisUrl(peer.port());
  const auto bulk = [](const std::string& text) { return Concat("$", text.size(), "\r\n", text, "\r\n"); };
  const std::string none = "its reply to INFO has no run_id";
  const std::string odd = "the run_id in its reply to INFO is not made of letters and digits";
  for (const auto& [reply, reason] : std::vector<std::pair<std::string, std::string>>{
           {"$-1\r\n", none},
           {bulk(""), none},
           {bulk("# Server\r\nredis_version:7.0.15\r\n"), none},
           {bulk("x_run_id:abc\r\n"), none},
           {bulk("run_id"), none},
           {bulk(std::string(100'000, '\n')), none},
           {bulk("run_id:\r\n"), odd},
           {bulk("run_id:a b\r\n"), odd},
           {bulk(std::string("run_id:a\0b\r\n", 12)), odd},
           {bulk("run_id:" + std::string(129, 'a')), odd},
           {"-LOADING x\r\n", "it refuses INFO: redis answered: LOADING x"},
           {"$99999999999\r\n", "it does not answer INFO: redis: a reply is larger than max_reply_bytes"},
       }) {
    info = reply;
    const auto redis = ConnectTo(url);
    ASSERT_NE(redis, nullptr);
    EXPECT_EQ(redis->Run(Incr()).value().integer(), 1);
    ExpectUnknown(*redis, reason);
  }
  for (const std::string reply : {"+OK\r\n", ":1\r\n", "*0\r\n", "*1\r\n$10\r\nrun_id:abc\r\n"}) {
    info = reply;
    const absl::Status status = RedisClient::Connect(url).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << reply << status;
    EXPECT_NE(status.message().find("a reply to INFO that belongs to another command"), std::string::npos) << status;
  }
  info = bulk("# Server\nrun_id:AbC19\nrun_id:second\n");
  EXPECT_EQ(RunIdOf(*ConnectTo(url)), "AbC19");
}

// Commands are bound to the server that is there, while a proxy switches between two servers at random moments. Each
// increments a key that is named after the server it is bound to.
TEST_F(RedisServerIdentityTest, ProxySwitchesAtRandom_BoundCommandsNeverRunOnTheOtherServer) {
  RedisServer servers[2];
  const std::string run_ids[2] = {servers[0].Info("run_id"), servers[1].Info("run_id")};
  TcpProxy proxy(servers[0].port());
  const auto redis = ConnectTo(RedisUrl(proxy.port()), {.command_timeout = absl::Minutes(1),
                                                        .min_backoff = absl::Microseconds(1),
                                                        .max_backoff = absl::Microseconds(1)});
  const RedisScript incr("return redis.call('INCR', KEYS[1])");
  std::atomic<bool> ending = false;
  std::atomic<int64_t> calls = 0, ran = 0, aborted = 0, lost = 0;
  const auto count = [&](const absl::Status& status) {
    ++calls;
    if (status.ok()) {
      ++ran;
    } else if (absl::IsAborted(status)) {
      ++aborted;
      lost += RedisOutcomeUnknown(status) ? 1 : 0;
    } else {
      EXPECT_TRUE(RedisOutcomeUnknown(status)) << status;
      ++lost;
    }
  };
  constexpr int kCallers = 4;
  std::vector<std::thread> callers;
  for (int t = 0; t < kCallers; ++t) {
    callers.emplace_back([&, t] {
      std::mt19937_64 random(testing::Seed() + static_cast<uint64_t>(t));
      while (!ending) {
        const std::string run_id = RunIdOf(*redis);
        const std::string key = "bound:" + run_id;
        const RedisCallOptions bound = {.on_server = run_id};
        // Some more with the same run id, so that some of them meet the other server.
        for (int i = 0; i < 4 && !ending; ++i) {
          RedisCommand command = random() % 2 == 0 ? Incr(key) : RedisCommand(incr, {key});
          if (random() % 2 == 0) command.Idempotent();
          switch (random() % 3) {
            case 0: count(redis->Run(command, bound).status()); break;
            case 1: count(redis->RunFuture(command, bound).get().status()); break;
            default: {
              const RedisCommand three[] = {command, Incr(key).Idempotent(), command};
              for (const auto& reply : redis->RunMany(three, bound)) count(reply.status());
            }
          }
        }
      }
    });
  }
  std::mt19937_64 random(testing::Seed());
  for (int64_t i = 0; i < Scaled(50, 500); ++i) {
    const int64_t until = calls + 1 + static_cast<int64_t>(random() % 50);
    Await("the callers", [&] { return calls >= until; });
    if (random() % 4 == 0) servers[i % 2].Call({"SCRIPT", "FLUSH"});
    proxy.SwitchTo(servers[(i + 1) % 2].port());
  }
  ending = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(servers[0].Call({"EXISTS", "bound:" + run_ids[1]}), "0");
  EXPECT_EQ(servers[1].Call({"EXISTS", "bound:" + run_ids[0]}), "0");
  EXPECT_GT(ran, 0);
  EXPECT_GT(aborted, 0);
  // No more than once each, except those that were sent again.
  const int64_t counted = std::stoll("0" + servers[0].Call({"GET", "bound:" + run_ids[0]}).text) +
                          std::stoll("0" + servers[1].Call({"GET", "bound:" + run_ids[1]}).text);
  EXPECT_GE(counted, ran);
  RecordProperty("ran", Concat(ran.load()));
  RecordProperty("aborted", Concat(aborted.load()));
  RecordProperty("lost", Concat(lost.load()));
}

}  // namespace
}  // namespace stockade
