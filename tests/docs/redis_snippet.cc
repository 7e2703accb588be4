// The snippet of redis/README.md, where it compiles and runs. snippets_test.cc compares the two.

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "redis/support/redis_server.h"
#include "stockade/redis/redis_client.h"

namespace {

absl::Status TakeFromAStock(const std::string& url) {
  bool looks = false;
  std::promise<bool> told;
  std::promise<std::string> sold_out;

  // "redis://user:password@host:6379/0"; redis_url.h has the others. One client serves all threads.
  absl::StatusOr<std::unique_ptr<stockade::RedisClient>> connected =
      stockade::RedisClient::Connect(url, {.name = "shop"});
  if (!connected.ok()) return connected.status();
  stockade::RedisClient& redis = **connected;

  // Blocks until the reply arrives. All callers share one connection.
  absl::StatusOr<stockade::RedisReply> set =
      redis.Run(stockade::RedisCommand("SET").Key("stock").Arg(2000).Idempotent());
  if (!set.ok()) return set.status();

  // Runs atomically. The script's text is sent only if the server does not know it. A script that is never destroyed
  // can be run by destructors of static objects.
  static const auto& take = *new stockade::RedisScript(R"(
    if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then return -1 end
    return redis.call('DECRBY', KEYS[1], ARGV[1]))");
  absl::StatusOr<stockade::RedisReply> left =
      redis.Run(stockade::RedisCommand(take, {"stock"}).Arg(1), {.timeout = absl::Seconds(1)});
  if (stockade::RedisOutcomeUnknown(left.status())) {
    looks = true;  // It was sent and got no reply: check before you take again.
  }
  if (!left.ok()) return left.status();

  // Sends all commands together. The replies are in the order of the commands.
  const stockade::RedisCommand both[] = {stockade::RedisCommand("GET").Key("stock"),
                                         stockade::RedisCommand("EXISTS").Key("sold")};
  std::vector<absl::StatusOr<stockade::RedisReply>> replies = redis.RunMany(both);
  for (const auto& reply : replies) {
    if (!reply.ok()) return reply.status();  // Each reply has its own status.
  }

  // Do not wait for the reply.
  std::future<absl::StatusOr<stockade::RedisReply>> sold = redis.RunFuture(stockade::RedisCommand("INCR").Key("sold"));
  redis.RunAsync(stockade::RedisCommand("PUBLISH").Arg("sales").Arg("stock"),
                 [&](const absl::StatusOr<stockade::RedisReply>& heard) { told.set_value(heard.ok()); });

  // Receives messages until the object is destroyed. The client's own thread sets `sold_out`.
  absl::StatusOr<stockade::RedisSubscription> heard =
      redis.Subscribe("sold-out", {.on_message = [&](std::string_view sku) { sold_out.set_value(std::string(sku)); }});
  if (!heard.ok()) return heard.status();
  absl::Status subscribed = heard->AwaitSubscribed(absl::Seconds(3));
  if (!subscribed.ok()) return subscribed;

  absl::StatusOr<stockade::RedisServerIdentity> server = redis.ServerOf("stock");
  if (!server.ok()) return server.status();                  // Not connected.
  if (!server->run_id.ok()) return server->run_id.status();  // The server does not tell its run id.
  absl::StatusOr<stockade::RedisReply> bound =
      redis.Run(stockade::RedisCommand("INCR").Key("stock"), {.on_server = *server->run_id});
  if (absl::IsAborted(bound.status())) {
    looks = true;  // Another server has taken over: read the state again.
  }

  EXPECT_EQ(bound.value().AsInteger().value(), 2000);

  const stockade::RedisCommand order[] = {stockade::RedisCommand("DECR").Key("{shoe}stock"),
                                          stockade::RedisCommand("LPUSH").Key("{shoe}orders").Arg(17)};
  absl::StatusOr<std::vector<absl::StatusOr<stockade::RedisReply>>> ordered = redis.RunTransaction(order);
  if (!ordered.ok()) return ordered.status();  // Nothing has run, or the outcome is unknown.
  for (const auto& reply : *ordered) {
    if (!reply.ok()) return reply.status();  // This command failed. The others have run.
  }

  EXPECT_EQ(ordered->at(1)->AsInteger().value(), 1);
  EXPECT_TRUE(redis.Run(stockade::RedisCommand("PUBLISH").Arg("sold-out").Arg("shoe")).ok());
  EXPECT_EQ(sold_out.get_future().get(), "shoe");
  EXPECT_EQ(left->AsInteger().value(), 1999);
  EXPECT_FALSE(looks);
  EXPECT_EQ(replies.at(0).value().AsInteger().value(), 1999);
  EXPECT_EQ(replies.at(1).value().AsInteger().value(), 0);
  EXPECT_EQ(sold.get().value().AsInteger().value(), 1);
  EXPECT_TRUE(told.get_future().get());
  return absl::OkStatus();
}

// What came of the second connection.
absl::Status ConnectWithTls(const std::string& managed_url, const std::string& own_url, const std::string& cert_file,
                            const std::string& key_file) {
  // "rediss://:secret@cache.example.com:6380": a CA of the system must have signed the server's certificate.
  absl::StatusOr<std::unique_ptr<stockade::RedisClient>> managed = stockade::RedisClient::Connect(managed_url);

  // "rediss+cluster://n1:6380?tls_ca=/etc/redis/ca.pem": the CA of a company. The client has a certificate, too.
  absl::StatusOr<std::unique_ptr<stockade::RedisClient>> own =
      stockade::RedisClient::Connect(own_url, {.tls = {.cert_file = cert_file, .key_file = key_file}});

  EXPECT_EQ(managed.status().code(), absl::StatusCode::kUnauthenticated) << managed.status();
  return own.status();
}

TEST(DocumentsTest, RedisSnippet_ConnectsWithTls) {
  STOCKADE_NEEDS_REDIS();
  STOCKADE_NEEDS_OPENSSL();
  stockade::testing::CertificateAuthority authority;
  stockade::testing::RedisServerTls tls = stockade::testing::TlsOf(authority);
  const stockade::testing::RedisServer server({.tls = tls});
  const auto [cert_file, key_file] = authority.Issue();
  EXPECT_EQ(ConnectWithTls("rediss://" + server.Host(), server.url(), cert_file, key_file), absl::OkStatus());
}

TEST(DocumentsTest, RedisSnippet_TakesFromAStock) {
  STOCKADE_NEEDS_REDIS();
  const stockade::testing::RedisServer server;
  EXPECT_EQ(TakeFromAStock(server.url()), absl::OkStatus());
}

// A snippet is copied: what fails must not abort it.
TEST(DocumentsTest, RedisSnippet_NobodyThere_SaysSo) {
  EXPECT_TRUE(absl::IsUnavailable(TakeFromAStock("redis://127.0.0.1:1")));
}

}  // namespace
