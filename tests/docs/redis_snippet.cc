// The snippet of redis/README.md, where it compiles and runs. snippets_test.cc compares the two.

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "redis/support/redis_server.h"
#include "stockade/redis/redis_client.h"

namespace {

TEST(DocumentsTest, RedisSnippet_TakesFromAStock) {
  STOCKADE_NEEDS_REDIS();
  const stockade::testing::RedisServer server;
  const std::string url = server.url();
  bool looks = false;
  std::promise<bool> told;
  std::promise<std::string> sold_out;

  // "redis://user:password@host:6379/0"; redis_url.h has the others. One client serves all threads.
  auto redis = stockade::RedisClient::Connect(url, {.name = "shop"}).value();

  // Blocks until the reply is there, and shares the connection with all who call.
  absl::StatusOr<stockade::RedisReply> set =
      redis->Run(stockade::RedisCommand("SET").Key("stock").Arg(2000).Idempotent());

  // Runs in one step, and is sent whole only where the server does not know it.
  static const stockade::RedisScript take(R"(
    if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then return -1 end
    return redis.call('DECRBY', KEYS[1], ARGV[1]))");
  absl::StatusOr<stockade::RedisReply> left =
      redis->Run(stockade::RedisCommand(take, {"stock"}).Arg(1), {.timeout = absl::Seconds(1)});
  if (stockade::RedisOutcomeUnknown(left.status())) {
    looks = true;  // It was sent and no reply came: look before taking again.
  }

  // In one go, replies in the order of the commands.
  const stockade::RedisCommand both[] = {stockade::RedisCommand("GET").Key("stock"),
                                         stockade::RedisCommand("EXISTS").Key("sold")};
  std::vector<absl::StatusOr<stockade::RedisReply>> replies = redis->RunMany(both);

  // Without waiting.
  std::future<absl::StatusOr<stockade::RedisReply>> sold = redis->RunFuture(stockade::RedisCommand("INCR").Key("sold"));
  redis->RunAsync(stockade::RedisCommand("PUBLISH").Arg("sales").Arg("stock"),
                  [&](const absl::StatusOr<stockade::RedisReply>& heard) { told.set_value(heard.ok()); });

  // Heard until the object goes. `sold_out` is set by the client's own thread.
  stockade::RedisSubscription heard =
      redis->Subscribe("sold-out", {.on_message = [&](std::string_view sku) { sold_out.set_value(std::string(sku)); }})
          .value();
  absl::Status subscribed = heard.AwaitSubscribed(absl::Seconds(3));

  EXPECT_TRUE(subscribed.ok()) << subscribed;
  EXPECT_TRUE(redis->Run(stockade::RedisCommand("PUBLISH").Arg("sold-out").Arg("shoe")).ok());
  EXPECT_EQ(sold_out.get_future().get(), "shoe");
  EXPECT_TRUE(set.ok()) << set.status();
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(left->AsInteger().value(), 1999);
  EXPECT_FALSE(looks);
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].value().AsInteger().value(), 1999);
  EXPECT_EQ(replies[1].value().AsInteger().value(), 0);
  EXPECT_EQ(sold.get().value().AsInteger().value(), 1);
  EXPECT_TRUE(told.get_future().get());
}

}  // namespace
