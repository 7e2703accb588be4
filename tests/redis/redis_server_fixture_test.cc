#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include <string>
#include <thread>
#include <utility>

#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/forked_child.h"
#include "support/loopback.h"

namespace stockade::testing {
namespace {

class RedisServerFixtureTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

TEST_F(RedisServerFixtureTest, Start_Plain_AnswersRedisCliAndKnowsNoData) {
  const RedisServer server;
  const std::string port = std::to_string(server.port());
  EXPECT_EQ(RunToEnd({"redis-cli", "-p", port, "PING"}).out, "PONG\n");
  EXPECT_EQ(RunToEnd({"redis-cli", "-p", port, "DBSIZE"}).out, "0\n");
  EXPECT_EQ(server.url(), "redis://127.0.0.1:" + port);
  EXPECT_EQ(server.Info("tcp_port"), port);
}

TEST_F(RedisServerFixtureTest, Call_EachKindOfReply_IsReadAsRedisCliReadsIt) {
  const RedisServer server;
  EXPECT_EQ(server.Call({"SET", "k", "a\r\nb"}).type, '+');
  const RawReply value = server.Call({"GET", "k"});
  EXPECT_EQ(value.type, '$');
  EXPECT_EQ(value, "a\r\nb");
  EXPECT_EQ(server.Call({"GET", "none"}).type, '_');
  EXPECT_EQ(server.Call({"INCR", "n"}), "1");
  const RawReply error = server.Call({"INCR", "k"});
  EXPECT_EQ(error.type, '-');
  EXPECT_EQ(error.text.substr(0, 4), "ERR ");
  const RawReply nested = server.Call({"EVAL", "return {1, {'two', {}}, false}", "0"});
  ASSERT_EQ(nested.items.size(), 3u) << nested;
  EXPECT_EQ(nested.items[1].items[0], "two");
  EXPECT_EQ(nested.items[1].items[1].type, '*');
  EXPECT_EQ(nested.items[2].type, '_');
}

TEST_F(RedisServerFixtureTest, RawRedis_PipelineAndMessages_ComeOneByOne) {
  const RedisServer server;
  RawRedis subscriber(server.port());
  EXPECT_EQ(subscriber.Call({"SUBSCRIBE", "news"}).items[0], "subscribe");
  RawRedis other(server.port());
  other.Send(RawRedis::Encode({"PING"}) + "PUBLISH news inline\r\n");
  EXPECT_EQ(other.Read(), "PONG");
  EXPECT_EQ(other.Read(), "1");
  EXPECT_EQ(subscriber.Read().items[2], "inline");
}

TEST_F(RedisServerFixtureTest, Users_PasswordAndAcl_LetInOnlyThose) {
  const RedisServer server({.password = "secret", .users = {"alice on >wonder ~a:* +get +set"}});
  RawRedis connection(server.port());
  EXPECT_EQ(connection.Call({"PING"}).text.substr(0, 6), "NOAUTH");
  EXPECT_EQ(connection.Call({"AUTH", "alice", "wonder"}), "OK");
  EXPECT_EQ(connection.Call({"SET", "a:1", "v"}), "OK");
  EXPECT_EQ(connection.Call({"SET", "b:1", "v"}).text.substr(0, 6), "NOPERM");
  EXPECT_EQ(server.Call({"GET", "a:1"}), "v");
}

TEST_F(RedisServerFixtureTest, UnixSocket_Asked_Answers) {
  const RedisServer server({.unix_socket = true});
  EXPECT_EQ(RawRedis(server.unix_socket()).Call({"PING"}), "PONG");
}

TEST_F(RedisServerFixtureTest, Replica_OfAnother_HasItsData) {
  const RedisServer master;
  master.Call({"SET", "k", "v"});
  const RedisServer replica({.replica_of = master.Host()});
  Await("the replica's data", [&] { return replica.Call({"GET", "k"}) == "v"; });
}

TEST_F(RedisServerFixtureTest, Restart_Appendonly_KeepsDataAndPort) {
  RedisServer server({.appendonly = true});
  const uint16_t port = server.port();
  server.Call({"SET", "k", "v"});
  server.Kill();
  EXPECT_TRUE(CallRedis(port, {"PING"}).lost());
  server.Restart();
  EXPECT_EQ(server.port(), port);
  EXPECT_EQ(server.Call({"GET", "k"}), "v");
}

TEST_F(RedisServerFixtureTest, Restart_WithoutAppendonly_IsEmpty) {
  RedisServer server;
  server.Call({"SET", "k", "v"});
  server.Restart();
  EXPECT_EQ(server.Call({"GET", "k"}).type, '_');
}

TEST_F(RedisServerFixtureTest, Restart_ByAThreadThatEnds_LeavesItRunning) {
  RedisServer server;
  std::thread([&] { server.Restart(); }).join();
  EXPECT_EQ(server.Call({"PING"}), "PONG");
}

TEST_F(RedisServerFixtureTest, Pause_OfARunningServer_HoldsRepliesUntilResume) {
  RedisServer server;
  RawRedis connection(server.port());
  EXPECT_EQ(connection.Call({"PING"}), "PONG");
  server.Pause();
  const std::string state = RunToEnd({"sh", "-c", "ps -o stat= --ppid " + std::to_string(getpid())}).out;
  EXPECT_NE(state.find('T'), std::string::npos) << state;
  connection.Send("PING\r\n");
  server.Resume();
  EXPECT_EQ(connection.Read(), "PONG");
}

TEST_F(RedisServerFixtureTest, Stop_OfAPausedServer_EndsIt) {
  RedisServer server;
  server.Pause();
  server.Stop();
  EXPECT_FALSE(server.running());
  EXPECT_NE(server.log().find("SIGTERM"), std::string::npos) << server.log();
}

TEST_F(RedisServerFixtureTest, TestProcess_DiesWithoutDestructors_TakesTheServerAlong) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const TempDir scratch;  // Of what dies without destructors.
  InForkedChild([&] {
    setenv("TMPDIR", scratch.path().c_str(), 1);
    const RedisServer server;
    const uint16_t port = server.port();
    if (CallRedis(port, {"PING"}) == "PONG") (void)!write(ends[1], &port, sizeof port);
    kill(getpid(), SIGKILL);
  });
  close(ends[1]);
  uint16_t port = 0;
  ASSERT_EQ(read(ends[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  close(ends[0]);
  Await("the orphan's end", [&] { return CallRedis(port, {"PING"}).lost(); });
}

TEST(LoopbackTest, FreePort_Bound_IsNoClientsPortAndNobodyElseGetsIt) {
  const uint16_t port = FreePort();
  EXPECT_LT(port, 32'768);
  const int held = BoundSocket(port);
  ASSERT_EQ(listen(held, 1), 0);
  EXPECT_EQ(BoundSocket(port), -1);
  close(held);
}

TEST(LoopbackTest, FreePort_OfAnotherProcess_IsReserved) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const uint16_t port = FreePort();
    (void)!write(ends[1], &port, sizeof port);
    pause();
  }
  uint16_t port = 0;
  ASSERT_EQ(read(ends[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  EXPECT_FALSE(ReservePort(port));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int end : ends) close(end);
}

TEST_F(RedisServerFixtureTest, Start_BadConfiguration_DiesAndShowsTheServersWords) {
  const TempDir scratch;
  const auto start = [&] {
    setenv("TMPDIR", scratch.path().c_str(), 1);
    const RedisServer server({.config = {"no-such-option 1"}});
  };
  EXPECT_DEATH(start(), "no-such-option 1");
}

TEST(NeedsProgramTest, InPath_KnownAndUnknown_TellsThemApart) {
  EXPECT_TRUE(InPath("sh"));
  EXPECT_FALSE(InPath("no-such-program-of-stockade"));
}

}  // namespace
}  // namespace stockade::testing
