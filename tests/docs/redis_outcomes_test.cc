// Checks the table of redis/README.md, "What a failure means", with a client: each failure is caused, and its result at
// the caller is put into the table's words.

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "docs/document_table.h"
#include "redis/support/connect_to.h"
#include "redis/support/raw_peer.h"
#include "redis/support/redis_server.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {
namespace {

// No test waits so long: a failure that comes by itself comes earlier.
constexpr absl::Duration kForever = absl::Seconds(60);
constexpr absl::Duration kSoon = absl::Milliseconds(30);

struct Bench {
  absl::Status Run(const RedisCommand& command, absl::Duration timeout = kForever) {
    return redis->Run(command, {.timeout = timeout}).status();
  }
  absl::Status Incr(absl::Duration timeout = kForever) { return Run(RedisCommand("INCR").Key("n"), timeout); }
  std::future<absl::StatusOr<RedisReply>> IncrFuture() {
    return redis->RunFuture(RedisCommand("INCR").Key("n"), {.timeout = kForever});
  }
  void TakeServerAway() {
    proxy.Refuse();
    proxy.CloseAll();
    Await("the client to miss its server", [&] {
      const absl::Status status = Run(RedisCommand("PING"), absl::Milliseconds(5));
      return absl::IsUnavailable(status) && !RedisOutcomeUnknown(status);
    });
  }

  RedisServer server;
  TcpProxy proxy{server.port()};
  std::unique_ptr<RedisClient> redis = ConnectTo(
      testing::RedisUrl(proxy.port()), {.max_pending_commands = 10, .max_reply_bytes = 10'000, .metrics = nullptr});
};

struct Failure {
  const char* what;
  std::function<absl::Status(Bench&)> make;
};

std::vector<Failure> Failures() {
  return {
      {"its reply was lost with the connection",
       [](Bench& b) {
         b.proxy.DropReply();
         return b.Incr();
       }},
      {"no reply within the time-out",
       [](Bench& b) {
         b.proxy.Hold();
         return b.Incr(kSoon);
       }},
      {"no connection within the time-out",
       [](Bench& b) {
         b.TakeServerAway();
         return b.Incr(kSoon);
       }},
      {"a time-out of zero or less", [](Bench& b) { return b.Incr(absl::ZeroDuration()); }},
      {"`on_server` names another server, or the run id is unknown",
       [](Bench& b) {
         return b.redis->Run(RedisCommand("INCR").Key("n"), {.timeout = kForever, .on_server = "another"}).status();
       }},
      {"`on_server`, an idempotent command's reply was lost, and the next connection is to another server",
       [](Bench& b) {
         const RedisServer other;
         const std::string run_id = *b.redis->ServerOf("n", kForever).value().run_id;
         b.proxy.Hold();
         auto lost =
             b.redis->RunFuture(RedisCommand("INCR").Key("n").Idempotent(), {.timeout = kForever, .on_server = run_id});
         EXPECT_TRUE(b.proxy.Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
         b.proxy.SwitchTo(other.port());
         b.proxy.Release();
         return lost.get().status();
       }},
      {"the queue is full (`max_pending_commands`, `max_unsent_bytes`)",
       [](Bench& b) {
         b.proxy.Hold();
         for (int i = 0; i < 10; ++i) (void)b.IncrFuture();
         return b.Incr();
       }},
      {"its reply is larger than `max_reply_bytes`",
       [](Bench& b) { return b.Run(RedisCommand("ECHO").Arg(std::string(20'000, 'x'))); }},
      {"the client was destroyed, it had been sent",
       [](Bench& b) {
         b.proxy.Hold();
         auto sent = b.IncrFuture();
         EXPECT_TRUE(b.proxy.Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
         b.redis.reset();
         return sent.get().status();
       }},
      {"the client was destroyed, it had not been sent",
       [](Bench& b) {
         b.TakeServerAway();
         auto waits = b.IncrFuture();
         b.redis.reset();
         return waits.get().status();
       }},
      {"LOADING, READONLY, MASTERDOWN, CLUSTERDOWN, TRYAGAIN, BUSY, NOREPLICAS, MISCONF",
       [](Bench& b) {
         EXPECT_EQ(b.server.Call({"CONFIG", "SET", "min-replicas-to-write", "1"}), "OK");
         return b.Incr();
       }},
      {"OOM",
       [](Bench& b) {
         EXPECT_EQ(b.server.Call({"CONFIG", "SET", "maxmemory", "1"}), "OK");
         return b.Incr();
       }},
      {"NOAUTH, WRONGPASS, a password where none is set",
       [](Bench& b) {
         const absl::Status wrong = b.Run(RedisCommand("AUTH").Arg("nobody").Arg("nothing"));
         const absl::Status none = b.Run(RedisCommand("AUTH").Arg("nothing"));
         EXPECT_EQ(none.code(), wrong.code()) << none;
         return wrong;
       }},
      {"the server lacks the database of the URL",
       [](Bench& b) {
         return RedisClient::Connect(testing::RedisUrl(b.server.port()) + "/99", {.metrics = nullptr}).status();
       }},
      {"NOPERM",
       [](Bench& b) {
         EXPECT_EQ(b.server.Call({"ACL", "SETUSER", "default", "-incr"}), "OK");
         return b.Incr();
       }},
      {"`allowed_hosts` forbids the server that it would go to",
       [](Bench&) {
         const RawPeer node([](size_t, const std::string& command) -> std::string {
           if (command == "PING") return "+PONG\r\n";
           if (command == "INFO server") return "$-1\r\n";
           if (command == "CLUSTER SLOTS") return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.2\r\n:6379\r\n";
           return "+OK\r\n";
         });
         const auto redis =
             RedisClient::Connect("redis+cluster://127.0.0.1:" + std::to_string(node.port()),
                                  {.max_reply_bytes = 100'000, .allowed_hosts = {"127.0.0.1"}, .metrics = nullptr})
                 .value();
         return redis->Run(RedisCommand("INCR").Key("n")).status();
       }},
      {"WRONGTYPE, NOSCRIPT, EXECABORT",
       [](Bench& b) {
         EXPECT_EQ(b.server.Call({"RPUSH", "n", "1"}), "1");
         return b.Incr();
       }},
      {"any other error of the server", [](Bench& b) { return b.Run(RedisCommand("NOSUCH")); }},
  };
}

TEST(RedisOutcomesTest, EachFailure_IsToldAsTheDocumentSays) {
  STOCKADE_NEEDS_REDIS();
  std::vector<std::string> documented = DocumentedTable("redis/README.md", "| what went wrong |");
  ASSERT_GT(documented.size(), 2u);
  documented.erase(documented.begin(), documented.begin() + 2);  // The head, and the line below it.
  const std::vector<Failure> failures = Failures();
  ASSERT_EQ(documented.size(), failures.size());
  for (size_t i = 0; i < failures.size(); ++i) {
    Bench bench;
    const absl::Status status = failures[i].make(bench);
    const std::string told = "| " + std::string(failures[i].what) + " | " + absl::StatusCodeToString(status.code()) +
                             " | " + (RedisOutcomeUnknown(status) ? "true" : "false") + " |";
    EXPECT_TRUE(documented[i].starts_with(told)) << documented[i] << "\nbut it is\n" << told << "\n" << status;
  }
}

}  // namespace
}  // namespace stockade::testing
