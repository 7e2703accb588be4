// A client whose server or network fails: the results that its callers get, and the time after the failure.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "redis/support/connect_to.h"
#include "redis/support/raw_redis.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade {
namespace {

using testing::ConnectTo;
using testing::RedisServer;
using testing::TcpProxy;

class RedisLossTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  // The server, until proxy.Accept(); blocks until the client has seen it.
  static void TakeAway(TcpProxy& proxy, RedisClient& redis) {
    proxy.Refuse();
    proxy.CloseAll();
    testing::Await("the client to miss its server", [&] {
      const absl::Status status = redis.Run(RedisCommand("PING"), {.timeout = absl::Milliseconds(5)}).status();
      return status.code() == absl::StatusCode::kUnavailable && !RedisOutcomeUnknown(status);
    });
  }

  static RedisCommand Incr() { return RedisCommand("INCR").Key("n"); }
};

TEST_F(RedisLossTest, ReplyLost_IsUnavailableWithUnknownOutcome_AndNeverSentAgain) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  proxy.DropReply();
  const absl::Status status = redis->Run(Incr()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RedisOutcomeUnknown(status));
  EXPECT_NE(status.message().find("unknown outcome"), std::string::npos) << status;
  EXPECT_EQ(redis->Run(Incr()).value().integer(), 2);
}

TEST_F(RedisLossTest, ReplyLost_OfAnIdempotentCommand_IsSentAgain) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  proxy.DropReply();
  EXPECT_EQ(redis->Run(Incr().Idempotent()).value().integer(), 2);
  proxy.DropReply();
  EXPECT_EQ(redis->RunFuture(Incr().Idempotent()).get().value().integer(), 4);
  proxy.DropReply();
  const RedisCommand two[] = {Incr().Idempotent(), Incr()};
  const auto replies = redis->RunMany(two);
  EXPECT_TRUE(replies[0].ok());
  EXPECT_TRUE(RedisOutcomeUnknown(replies[1].status()));
}

TEST_F(RedisLossTest, ReplyLost_OfAnIdempotentCommandThatCannotBeSentAgain_IsUnknownOutcome) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()), {.max_backoff = absl::Milliseconds(50)});
  // Much longer than the reply takes to be lost: the rest is waited for in vain.
  constexpr absl::Duration kTimeout = absl::Seconds(2);
  const auto check = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(RedisOutcomeUnknown(status)) << status;
    EXPECT_TRUE(std::string(status.message()).ends_with("; not sent again; unknown outcome")) << status;
  };
  proxy.Refuse();
  proxy.DropReply();
  check(redis->Run(Incr().Idempotent(), {.timeout = kTimeout}).status());
  EXPECT_EQ(server.Call({"GET", "n"}), "1");
  proxy.Accept();
  ASSERT_TRUE(redis->Run(RedisCommand("PING").Idempotent()).ok());
  proxy.Refuse();
  proxy.DropReply();
  check(redis->RunFuture(Incr().Idempotent(), {.timeout = kTimeout}).get().status());
  EXPECT_EQ(server.Call({"GET", "n"}), "2");
}

TEST_F(RedisLossTest, HalfAReply_IsLost_WholeOnesBeforeItAreNot) {
  RedisServer server;
  ASSERT_EQ(server.Call({"SET", "k", std::string(1000, 'x')}), "OK");
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  proxy.CutReplyAfter(4 + 500);  // ":1\r\n", then half of the value.
  const RedisCommand two[] = {Incr(), RedisCommand("GET").Key("k")};
  const auto replies = redis->RunMany(two);
  EXPECT_EQ(replies[0].value().integer(), 1);
  EXPECT_TRUE(RedisOutcomeUnknown(replies[1].status())) << replies[1].status();
  EXPECT_EQ(redis->Run(RedisCommand("GET").Key("k")).value().text().size(), 1000);
}

TEST_F(RedisLossTest, CutAtEveryByteOfAReply_NeverAnotherCommandsReply) {
  RedisServer server;
  ASSERT_EQ(server.Call({"RPUSH", "list", "a", "bb", "ccc"}), "3");
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()),
                               {.min_backoff = absl::Microseconds(1), .max_backoff = absl::Microseconds(1)});
  const RedisCommand range = RedisCommand("LRANGE").Key("list").Arg(0).Arg(-1);
  const std::string wire = "*3\r\n$1\r\na\r\n$2\r\nbb\r\n$3\r\nccc\r\n";
  for (size_t bytes = 0; bytes < wire.size(); ++bytes) {
    proxy.CutReplyAfter(bytes);
    EXPECT_TRUE(RedisOutcomeUnknown(redis->Run(range).status())) << bytes;
    EXPECT_EQ(redis->Run(range).value().ToString(), "[\"a\", \"bb\", \"ccc\"]") << bytes;
  }
}

TEST_F(RedisLossTest, TimeOut_OfASlowServer_IsDeadlineExceeded_AndTheLateReplyIsNobodys) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  proxy.Hold();
  const absl::Status status = redis->Run(Incr(), {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(RedisOutcomeUnknown(status));
  const absl::Status later = redis->RunFuture(Incr(), {.timeout = absl::Milliseconds(50)}).get().status();
  EXPECT_EQ(later.code(), absl::StatusCode::kDeadlineExceeded);
  proxy.Release();
  EXPECT_EQ(redis->Run(RedisCommand("ECHO").Arg("mine")).value().text(), "mine");
  EXPECT_EQ(proxy.counts().accepted, 1);
}

// A connection that says nothing any more, at a server that would take new ones.
TEST_F(RedisLossTest, ConnectionFallsSilent_IsReplaced_WithAndWithoutNewCommands) {
  RedisServer server;
  const auto redis =
      ConnectTo(server.url(), {.connect_timeout = absl::Milliseconds(500), .command_timeout = absl::Milliseconds(100)});
  const RedisCommand off = RedisCommand("CLIENT").Arg("REPLY").Arg("OFF");
  EXPECT_EQ(redis->Run(off).status().code(), absl::StatusCode::kDeadlineExceeded);
  testing::Await("a connection that answers", [&] { return redis->Run(RedisCommand("PING")).ok(); });
  // What was sent behind it, too: nothing else would be sent until it has timed out.
  EXPECT_EQ(redis->RunFuture(off).get().status().code(), absl::StatusCode::kDeadlineExceeded);
  const RedisCommand get = RedisCommand("GET").Key("n").Idempotent();
  EXPECT_EQ(redis->Run(get, {.timeout = absl::Minutes(5)}).status(), absl::OkStatus());
}

TEST_F(RedisLossTest, ConnectionSilent_WhileACallerStillWaits_IsKeptForIt) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()),
                               {.connect_timeout = absl::Milliseconds(20), .command_timeout = absl::Milliseconds(20)});
  ASSERT_NE(redis, nullptr);
  const uint64_t accepted = proxy.counts().accepted;
  proxy.Hold();
  auto patient = redis->RunFuture(Incr(), {.timeout = absl::Minutes(5)});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(redis->Run(Incr()).ok());
  proxy.Release();
  EXPECT_EQ(patient.get().value().integer(), 1);
  EXPECT_EQ(proxy.counts().accepted, accepted);
}

TEST_F(RedisLossTest, ReplyComesWhileNoCallerWaits_ConnectionIsKept) {
  constexpr absl::Duration kConnectTimeout = absl::Milliseconds(1500);
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()),
                               {.connect_timeout = kConnectTimeout, .command_timeout = absl::Milliseconds(50)});
  ASSERT_NE(redis, nullptr);
  const uint64_t accepted = proxy.counts().accepted;
  proxy.Hold();
  EXPECT_EQ(redis->Run(Incr()).status().code(), absl::StatusCode::kDeadlineExceeded);
  proxy.Release();
  const Instant silent = Clock::System()->Now() + 2 * kConnectTimeout + absl::Milliseconds(500);
  testing::Await("the time after which a connection is silent", [&] { return Clock::System()->Now() > silent; });
  EXPECT_EQ(redis->Run(Incr(), {.timeout = absl::Minutes(1)}).value().integer(), 2);
  EXPECT_EQ(proxy.counts().accepted, accepted);
}

TEST_F(RedisLossTest, TimeOut_OfZeroOrLess_SendsNothing) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  for (const absl::Duration timeout : {absl::ZeroDuration(), -absl::InfiniteDuration()}) {
    EXPECT_EQ(redis->Run(Incr(), {.timeout = timeout}).status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(redis->RunFuture(Incr(), {.timeout = timeout}).get().status().code(),
              absl::StatusCode::kDeadlineExceeded);
    const RedisCommand one[] = {Incr()};
    EXPECT_EQ(redis->RunMany(one, {.timeout = timeout})[0].status().code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(server.Call({"GET", "n"}).type, '_');
}

TEST_F(RedisLossTest, TimeOut_Infinite_WaitsForTheReply) {
  RedisServer server;
  const auto redis = ConnectTo(server.url());
  EXPECT_TRUE(redis->Run(Incr(), {.timeout = absl::InfiniteDuration()}).ok());
  EXPECT_TRUE(redis->RunFuture(Incr(), {.timeout = absl::InfiniteDuration()}).get().ok());
}

TEST_F(RedisLossTest, TimeOut_OfOne_LeavesTheOthersTheirReplies) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  proxy.Hold();
  std::vector<std::thread> patient;
  for (int i = 0; i < 4; ++i) {
    patient.emplace_back([&, i] {
      EXPECT_EQ(redis->Run(RedisCommand("ECHO").Arg(i), {.timeout = absl::Seconds(60)}).value().text(),
                std::to_string(i));
    });
  }
  std::vector<std::thread> hasty;
  for (int i = 0; i < 4; ++i) {
    hasty.emplace_back([&] {
      EXPECT_EQ(redis->Run(RedisCommand("ECHO").Arg("hasty"), {.timeout = absl::Milliseconds(30)}).status().code(),
                absl::StatusCode::kDeadlineExceeded);
    });
  }
  for (std::thread& thread : hasty) thread.join();
  proxy.Release();
  for (std::thread& thread : patient) thread.join();
}

TEST_F(RedisLossTest, IdleConnection_ClosedByTheServer_IsMadeAnewBeforeACommandIsLost) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  for (uint64_t i = 1; i <= 5; ++i) {
    proxy.CloseAll();
    ASSERT_TRUE(
        proxy.Await([&](const TcpProxy::Counts& counts) { return counts.accepted == i + 1 && counts.open == 1; }));
    EXPECT_EQ(redis->Run(Incr()).value().integer(), static_cast<int64_t>(i));
  }
}

TEST_F(RedisLossTest, ServerAway_IsUnavailableInTime_NotSent_ThenWorks) {
  RedisServer server({.appendonly = true});
  const auto redis = ConnectTo(server.url(), {.command_timeout = absl::Milliseconds(300)});
  server.Kill();
  absl::Status status;
  // The first may have met the connection's end, or none may have been tried since.
  testing::Await("a connection to be refused", [&] {
    const auto begin = std::chrono::steady_clock::now();
    status = redis->Run(Incr()).status();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    return !RedisOutcomeUnknown(status) && status.message().find("Connection refused") != std::string_view::npos;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(RedisOutcomeUnknown(status)) << status;
  EXPECT_NE(status.message().find("Connection refused; not sent"), std::string::npos) << status;
  EXPECT_FALSE(redis->RunFuture(Incr()).get().ok());
  server.Restart();
  EXPECT_EQ(redis->Run(Incr(), {.timeout = absl::Seconds(30)}).value().integer(), 1);
}

TEST_F(RedisLossTest, ServerRestarts_WhatWaitsIsSentOnce) {
  RedisServer server({.appendonly = true});
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  TakeAway(proxy, *redis);
  std::vector<std::future<absl::StatusOr<RedisReply>>> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(redis->RunFuture(Incr(), {.timeout = absl::Seconds(60)}));
  std::thread caller([&] { EXPECT_TRUE(redis->Run(Incr(), {.timeout = absl::Seconds(60)}).ok()); });
  proxy.Accept();
  caller.join();
  for (auto& future : waiting) EXPECT_TRUE(future.get().ok());
  EXPECT_EQ(server.Call({"GET", "n"}), "101");
}

// A user that may not PING gets LOADING as the answer to a command, other users when they connect.
TEST_F(RedisLossTest, ServerLoadsItsData_IsWaitedFor) {
  // The file takes a while to load, and the server handles clients in between, so that it answers LOADING.
  RedisServer server({.config = {"key-load-delay 20000", "loading-process-events-interval-bytes 1024",
                                 "rdbcompression no", "user mute on >secret ~* &* +@all -ping"}});
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(server.Call({"RPUSH", "k" + std::to_string(i), std::string(2'000, 'v')}), "1");
  }
  ASSERT_EQ(server.Call({"SAVE"}).type, '+');
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  const auto redis = ConnectTo(server.url(), {.command_timeout = absl::Seconds(60)});
  const auto mute = ConnectTo("redis://mute:secret@" + address, {.command_timeout = absl::Seconds(60)});
  server.Kill();
  auto length = redis->RunFuture(RedisCommand("LLEN").Key("k9").Idempotent());
  auto length_of_mute = mute->RunFuture(RedisCommand("LLEN").Key("k9").Idempotent());
  server.Restart();
  EXPECT_EQ(length.get().value().integer(), 1);
  EXPECT_EQ(length_of_mute.get().value().integer(), 1);
}

TEST_F(RedisLossTest, ReplyAboveTheBound_IsResourceExhausted_AndTheClientGoesOn) {
  RedisServer server;
  ASSERT_EQ(server.Call({"SET", "large", std::string(200'000, 'x')}), "OK");
  const auto redis = ConnectTo(server.url(), {.max_reply_bytes = 100'000});
  const absl::Status status = redis->Run(RedisCommand("GET").Key("large")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("max_reply_bytes (100000)"), std::string::npos) << status;
  EXPECT_EQ(redis->Run(RedisCommand("GETRANGE").Key("large").Arg(0).Arg(99'999)).value().text().size(), 100'000);
}

TEST_F(RedisLossTest, QueueFull_IsResourceExhaustedAtOnce_ThenEmpties) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis =
      ConnectTo(testing::RedisUrl(proxy.port()), {.command_timeout = absl::Seconds(60), .max_pending_commands = 10});
  proxy.Hold();
  std::vector<std::future<absl::StatusOr<RedisReply>>> waiting;
  for (int i = 0; i < 10; ++i) waiting.push_back(redis->RunFuture(Incr()));
  const absl::Status full = redis->Run(Incr()).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(RedisOutcomeUnknown(full));
  EXPECT_NE(full.message().find("10 commands are pending; 1 more would exceed max_pending_commands (10); not sent"),
            std::string::npos)
      << full;
  EXPECT_EQ(redis->RunFuture(Incr()).get().status().code(), absl::StatusCode::kResourceExhausted);
  proxy.Release();
  for (auto& future : waiting) EXPECT_TRUE(future.get().ok());
  EXPECT_EQ(redis->Run(Incr()).value().integer(), 11);
}

TEST_F(RedisLossTest, UnsentBytesAboveTheBound_AreRefused_OneLargeCommandIsNot) {
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()), {.max_unsent_bytes = 1000});
  EXPECT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg(std::string(100'000, 'x'))).ok());
  TakeAway(proxy, *redis);
  auto waits =
      redis->RunFuture(RedisCommand("SET").Key("k").Arg(std::string(900, 'x')), {.timeout = absl::Seconds(60)});
  const absl::Status full = redis->Run(RedisCommand("SET").Key("k").Arg(std::string(900, 'y'))).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_NE(full.message().find("max_unsent_bytes (1000)"), std::string::npos) << full;
  proxy.Accept();
  EXPECT_TRUE(waits.get().ok());
}

TEST_F(RedisLossTest, LargeCommandsBothWays_BesideSmallOnes_FillTheSocketAndGoOn) {
  RedisServer server;
  const auto redis = ConnectTo(server.url(), {.command_timeout = absl::Seconds(60)});
  const std::string large(20'000'000, 'x');
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) {
        if (t == 0) {
          EXPECT_EQ(redis->Run(RedisCommand("ECHO").Arg(large)).value().text().size(), large.size());
        } else {
          for (int j = 0; j < 50; ++j) EXPECT_EQ(redis->Run(RedisCommand("ECHO").Arg(t)).value().integer(), 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RedisLossTest, Destroyed_WithCommandsOutstanding_TheyAreCancelled) {
  RedisServer server;
  TcpProxy proxy(server.port());
  auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  proxy.Hold();
  auto sent = redis->RunFuture(Incr());
  ASSERT_TRUE(proxy.Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
  std::promise<absl::Status> called_back;
  redis->RunAsync(Incr(), [&](const absl::StatusOr<RedisReply>& reply) { called_back.set_value(reply.status()); });
  redis.reset();
  const absl::Status status = sent.get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(RedisOutcomeUnknown(status));
  EXPECT_EQ(called_back.get_future().get().code(), absl::StatusCode::kCancelled);
}

TEST_F(RedisLossTest, Destroyed_WhileACallbackSendsMore_ThatIsCancelledToo) {
  RedisServer server;
  TcpProxy proxy(server.port());
  auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  RedisClient& client = *redis;
  proxy.Hold();
  std::promise<absl::Status> last;
  client.RunAsync(Incr(), [&](const absl::StatusOr<RedisReply>& first) {
    EXPECT_EQ(first.status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(client.Run(Incr()).status().code(), absl::StatusCode::kCancelled);
    client.RunAsync(Incr(), [&](const absl::StatusOr<RedisReply>& second) { last.set_value(second.status()); });
  });
  redis.reset();
  EXPECT_EQ(last.get_future().get().code(), absl::StatusCode::kCancelled);
}

TEST_F(RedisLossTest, Destroyed_WhileItReconnectsAndRetries_EndsAndCancels) {
  RedisServer server;
  auto redis = ConnectTo(server.url(), {.command_timeout = absl::Seconds(60)});
  server.Kill();
  auto waits = redis->RunFuture(Incr());
  redis.reset();
  EXPECT_FALSE(waits.get().ok());
}

}  // namespace
}  // namespace stockade
