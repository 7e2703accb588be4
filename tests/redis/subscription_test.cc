#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "redis/support/ear.h"
#include "redis/support/redis_server.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "stockade/redis/redis_subscription.h"
#include "support/await.h"
#include "support/exported.h"
#include "support/forked_child.h"
#include "support/scale.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::Ear;
using testing::RawReply;
using testing::RedisServer;
using testing::Scaled;

constexpr absl::Duration kLong = absl::Seconds(30);

RedisSubscription Subscribed(RedisClient& client, std::string channel, RedisSubscriber subscriber) {
  absl::StatusOr<RedisSubscription> made = client.Subscribe(std::move(channel), std::move(subscriber));
  if (!made.ok()) base_internal::Fatal(made.status().ToString());
  const absl::Status confirmed = made->AwaitSubscribed(kLong);
  if (!confirmed.ok()) base_internal::Fatal(confirmed.ToString());
  return *std::move(made);
}

std::string SubscribersOf(const RedisServer& server, const std::string& channel) {
  const RawReply reply = server.Call({"PUBSUB", "NUMSUB", channel});
  return reply.items.size() == 2 ? reply.items[1].text : "?";
}

// How often the server was sent the command.
int CallsOf(const RedisServer& server, const std::string& command) {
  const std::string stats = testing::InfoField(server.Call({"INFO", "commandstats"}).text, "cmdstat_" + command);
  return stats.empty() ? 0 : std::stoi(stats.substr(std::string("calls=").size()));
}

class SubscriptionTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  static std::unique_ptr<RedisClient> Client(const std::string& url, RedisOptions options = {}) {
    if (options.metrics == MetricsRegistry::Default()) options.metrics = nullptr;
    absl::StatusOr<std::unique_ptr<RedisClient>> client = RedisClient::Connect(url, std::move(options));
    if (!client.ok()) base_internal::Fatal(client.status().ToString());
    return *std::move(client);
  }
};

TEST_F(SubscriptionTest, Pattern_EachMessageOnceInOrderWithItsChannel_ChannelsOfTheSameNameApart) {
  const RedisServer server;
  const auto client = Client(server.url());
  Ear pattern, twice, channel;
  RedisSubscription first = client->SubscribePattern("n*", pattern.pattern_subscriber()).value();
  const RedisSubscription second = client->SubscribePattern("n*", twice.pattern_subscriber()).value();
  const RedisSubscription named = Subscribed(*client, "n*", channel.subscriber());
  ASSERT_TRUE(first.AwaitSubscribed(kLong).ok());
  ASSERT_TRUE(second.AwaitSubscribed(kLong).ok());
  EXPECT_EQ(server.Call({"PUBSUB", "NUMPAT"}), "1");
  EXPECT_EQ(SubscribersOf(server, "n*"), "1");
  std::vector<std::string> sent;
  for (int i = 0; i < 100; ++i) {
    const std::string to = i % 3 == 0 ? "n*" : i % 3 == 1 ? "news" : std::string("n\0\n", 3);
    sent.push_back(to + ": " + std::to_string(i));
    ASSERT_TRUE(client->Run(RedisCommand("PUBLISH").Arg(to).Arg(i)).ok());
    ASSERT_TRUE(client->Run(RedisCommand("PUBLISH").Arg("olds").Arg(i)).ok());
  }
  ASSERT_TRUE(pattern.AwaitMessages(100));
  ASSERT_TRUE(twice.AwaitMessages(100));
  ASSERT_TRUE(channel.AwaitMessages(34));
  EXPECT_EQ(pattern.heard(), sent);
  EXPECT_EQ(twice.heard(), sent);
  EXPECT_EQ(channel.heard().back(), "99");
  first.Unsubscribe();
  ASSERT_TRUE(client->Run(RedisCommand("PUBLISH").Arg("news").Arg("more")).ok());
  ASSERT_TRUE(twice.AwaitMessage("news: more"));
  EXPECT_EQ(pattern.heard(), sent);
}

TEST_F(SubscriptionTest, Pattern_LastUserLeaves_ServerForgetsIt) {
  const RedisServer server;
  const auto client = Client(server.url());
  for (int i = 0; i < 3; ++i) {
    RedisSubscription subscription = client->SubscribePattern("n*", {}).value();
    ASSERT_TRUE(subscription.AwaitSubscribed(kLong).ok());
    EXPECT_EQ(server.Call({"PUBSUB", "NUMPAT"}), "1");
    subscription.Unsubscribe();
    Await("PUNSUBSCRIBE", [&] { return server.Call({"PUBSUB", "NUMPAT"}) == "0"; });
  }
}

TEST_F(SubscriptionTest, Pattern_ConnectionLost_IsConfirmedAgain) {
  const RedisServer server;
  const auto client = Client(server.url());
  Ear ear;
  const RedisSubscription subscription = client->SubscribePattern("n*", ear.pattern_subscriber()).value();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(ear.AwaitConfirmations(i));
    ASSERT_TRUE(client->Run(RedisCommand("PUBLISH").Arg("news").Arg(i).Idempotent()).ok());
    ASSERT_TRUE(ear.AwaitMessage(Concat("news: ", i)));
    server.KillConnections();
  }
}

TEST_F(SubscriptionTest, Pattern_ForbiddenOrTooLong_SaysSo_AndOthersAreHeard) {
  const RedisServer server({.users = {"ear on nopass ~* &* resetchannels &news.* +@all"}});
  const auto client = Client(Concat("redis://ear:x@127.0.0.1:", server.port()));
  const RedisSubscription refused = client->SubscribePattern("other.*", {}).value();
  const absl::Status status = refused.AwaitSubscribed(kLong);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_NE(status.message().find("pattern 'other.*': redis answered: NOPERM"), std::string::npos) << status;
  const RedisSubscription allowed = client->SubscribePattern("news.*", {}).value();
  EXPECT_TRUE(allowed.AwaitSubscribed(kLong).ok());
  const absl::Status long_one = client->SubscribePattern(std::string(70'000, 'x'), {}).status();
  EXPECT_EQ(long_one, absl::InvalidArgumentError("redis 'default': a pattern of 70000 bytes exceeds 65536"));
}

TEST_F(SubscriptionTest, Patterns_CountForMaxChannels) {
  const RedisServer server;
  const auto client = Client(server.url(), {.max_channels = 2});
  const RedisSubscription channel = client->Subscribe("a", {}).value();
  const RedisSubscription pattern = client->SubscribePattern("a", {}).value();
  EXPECT_TRUE(absl::IsResourceExhausted(client->SubscribePattern("b", {}).status()));
  EXPECT_TRUE(client->SubscribePattern("a", {}).ok());
}

TEST_F(SubscriptionTest, Pattern_CallbackThrows_IsLoggedWithThePattern) {
  const RedisServer server;
  std::promise<std::string> logged;
  SetLogSink([&, first = true](LogSeverity, std::string_view text) mutable {
    if (std::exchange(first, false)) logged.set_value(std::string(text));
  });
  {
    const auto client = Client(server.url());
    const RedisSubscription subscription =
        client->SubscribePattern("n*", {.on_subscribed = [] { throw std::runtime_error("too bad"); }}).value();
    EXPECT_EQ(logged.get_future().get(), "redis 'default': pattern 'n*': on_subscribed threw: too bad");
  }
  SetLogSink({});
}

TEST_F(SubscriptionTest, Messages_TwoSubscribersOfAChannel_EachHearsAllOnceInOrder) {
  const RedisServer server;
  const auto client = Client(server.url());
  Ear ears[2];
  Ear other;
  const RedisSubscription first = Subscribed(*client, "news", ears[0].subscriber());
  const RedisSubscription second = Subscribed(*client, "news", ears[1].subscriber());
  const RedisSubscription elsewhere = Subscribed(*client, "olds", other.subscriber());
  EXPECT_EQ(first.channel(), "news");
  std::vector<std::string> sent;
  std::vector<RedisCommand> commands;
  for (int i = 0; i < Scaled(5000, 50'000); ++i) {
    sent.push_back(std::to_string(i));
    commands.push_back(RedisCommand(client->publish_command()).Key("news").Arg(sent.back()));
  }
  for (const auto& reply : client->RunMany(commands, {.timeout = kLong}))
    ASSERT_EQ(reply->integer(), 1) << reply.status();
  for (Ear& ear : ears) {
    ASSERT_TRUE(ear.AwaitMessages(sent.size()));
    EXPECT_EQ(ear.heard(), sent);
    EXPECT_EQ(ear.confirmations(), 1);
  }
  EXPECT_TRUE(other.heard().empty());
}

TEST_F(SubscriptionTest, Subscribe_ChannelThatIsConfirmed_IsToldWithoutAnotherCommand) {
  const RedisServer server;
  const auto client = Client(server.url());
  Ear first_ear;
  Ear second_ear;
  RedisSubscription first = Subscribed(*client, "news", first_ear.subscriber());
  RedisSubscription second = Subscribed(*client, "news", second_ear.subscriber());
  EXPECT_TRUE(second_ear.AwaitConfirmations(1));
  EXPECT_EQ(CallsOf(server, "subscribe"), 1);

  first.Unsubscribe();
  EXPECT_EQ(first.channel(), "");
  server.Call({"PUBLISH", "news", "still here"});
  EXPECT_TRUE(second_ear.AwaitMessage("still here"));
  EXPECT_TRUE(first_ear.heard().empty());
  EXPECT_EQ(SubscribersOf(server, "news"), "1");
  EXPECT_EQ(CallsOf(server, "unsubscribe"), 0);

  second = RedisSubscription();
  Await("the channel's last subscriber to go", [&] { return SubscribersOf(server, "news") == "0"; });
  EXPECT_EQ(CallsOf(server, "unsubscribe"), 1);
}

TEST_F(SubscriptionTest, Subscribe_RightAfterUnsubscribe_IsNotLost) {
  const RedisServer server;
  const auto client = Client(server.url());
  for (int i = 0; i < Scaled(1000, 10'000); ++i) {
    Ear ear;
    RedisSubscription subscription = Subscribed(*client, "lock", ear.subscriber());
    const std::string text = std::to_string(i);
    ASSERT_TRUE(client->Run(RedisCommand("PUBLISH").Key("lock").Arg(text)).ok());
    ASSERT_TRUE(ear.AwaitMessage(text));
  }
}

TEST_F(SubscriptionTest, ConnectionIsKilled_ComesBackAndTells) {
  const RedisServer server;
  const auto client = Client(server.url());
  Ear ear;
  const RedisSubscription subscription = Subscribed(*client, "news", ear.subscriber());
  for (int kill = 1; kill <= 5; ++kill) {
    EXPECT_EQ(server.Call({"CLIENT", "KILL", "TYPE", "pubsub"}), "1");
    ASSERT_TRUE(ear.AwaitConfirmations(kill + 1));
    const std::string text = Concat("after ", kill);
    EXPECT_EQ(server.Call({"PUBLISH", "news", text}), "1");
    ASSERT_TRUE(ear.AwaitMessage(text));
  }
  EXPECT_EQ(ear.heard().size(), 5u);
}

TEST_F(SubscriptionTest, ServerRestarts_ComesBackAndTells) {
  RedisServer server;
  const auto client = Client(server.url());
  Ear ear;
  const RedisSubscription subscription = Subscribed(*client, "news", ear.subscriber());
  server.Kill();
  server.Restart();
  ASSERT_TRUE(ear.AwaitConfirmations(2));
  EXPECT_EQ(server.Call({"PUBLISH", "news", "again"}), "1");
  EXPECT_TRUE(ear.AwaitMessage("again"));
}

TEST_F(SubscriptionTest, ServerStandsStill_IsFoundByItsSilence) {
  RedisServer server;
  const auto client =
      Client(server.url(), {.connect_timeout = absl::Milliseconds(500), .command_timeout = absl::Milliseconds(500)});
  Ear ear;
  const RedisSubscription subscription = Subscribed(*client, "news", ear.subscriber());
  server.Pause();
  // It tells as soon as it is no longer confirmed.
  Await("the connection's loss", [&] { return !subscription.AwaitSubscribed(absl::ZeroDuration()).ok(); });
  EXPECT_EQ(subscription.AwaitSubscribed(absl::ZeroDuration()).code(), absl::StatusCode::kUnavailable);
  server.Resume();
  ASSERT_TRUE(ear.AwaitConfirmations(2));
  EXPECT_EQ(server.Call({"PUBLISH", "news", "again"}), "1");
  EXPECT_TRUE(ear.AwaitMessage("again"));
}

TEST_F(SubscriptionTest, Silence_OfAServerThatAnswers_BreaksNothing) {
  const RedisServer server;
  const auto client = Client(server.url(), {.connect_timeout = absl::Seconds(2), .command_timeout = absl::Seconds(2)});
  Ear ear;
  const RedisSubscription subscription = Subscribed(*client, "news", ear.subscriber());
  const int before = CallsOf(server, "ping");
  Await("some rounds of PING", [&] { return CallsOf(server, "ping") >= before + 3; });
  EXPECT_EQ(ear.confirmations(), 1);
}

TEST_F(SubscriptionTest, ThousandChannels_KilledConnection_AllComeBackInFewCommands) {
  const RedisServer server;
  const auto client = Client(server.url());
  constexpr int kChannels = 1000;
  std::vector<std::unique_ptr<Ear>> ears;
  std::vector<RedisSubscription> subscriptions;
  for (int i = 0; i < kChannels; ++i) {
    ears.push_back(std::make_unique<Ear>());
    subscriptions.push_back(*client->Subscribe(Concat("channel ", i), ears.back()->subscriber()));
  }
  for (const auto& ear : ears) ASSERT_TRUE(ear->AwaitConfirmations(1));
  const int before = CallsOf(server, "subscribe");
  EXPECT_EQ(server.Call({"CLIENT", "KILL", "TYPE", "pubsub"}), "1");
  for (const auto& ear : ears) ASSERT_TRUE(ear->AwaitConfirmations(2));
  EXPECT_EQ(CallsOf(server, "subscribe"), before + 2);
  for (int i = 0; i < kChannels; ++i) {
    ASSERT_TRUE(client->Run(RedisCommand("PUBLISH").Key(Concat("channel ", i)).Arg(i)).ok());
  }
  for (int i = 0; i < kChannels; ++i) {
    ASSERT_TRUE(ears[i]->AwaitMessages(1));
    EXPECT_EQ(ears[i]->heard(), std::vector<std::string>{std::to_string(i)});
  }
}

TEST_F(SubscriptionTest, Unsubscribe_WithinTheCallback_IsTheLastCall) {
  const RedisServer server;
  const auto client = Client(server.url());
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> captured = alive;
  Ear witness;
  RedisSubscription subscription;
  std::atomic<int> calls = 0;
  std::promise<bool> still_there;
  subscription = Subscribed(*client, "news", {.on_message = [&, alive = std::move(alive)](std::string_view) {
    ++calls;
    subscription.Unsubscribe();
    still_there.set_value(!captured.expired());  // What runs is not destroyed under itself.
  }});
  const RedisSubscription other = Subscribed(*client, "news", witness.subscriber());
  for (int i = 0; i < 3; ++i) server.Call({"PUBLISH", "news", std::to_string(i)});
  EXPECT_TRUE(still_there.get_future().get());
  ASSERT_TRUE(witness.AwaitMessages(3));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(captured.expired());
}

TEST_F(SubscriptionTest, Unsubscribe_OfAnotherWithinACallback_KeepsItFromTheSameMessage) {
  const RedisServer server;
  const auto client = Client(server.url());
  Ear second_ear;
  Ear witness;
  RedisSubscription second;
  const RedisSubscription first =
      Subscribed(*client, "news", {.on_message = [&](std::string_view) { second.Unsubscribe(); }});
  second = Subscribed(*client, "news", second_ear.subscriber());
  const RedisSubscription third = Subscribed(*client, "news", witness.subscriber());
  server.Call({"PUBLISH", "news", "once"});
  ASSERT_TRUE(witness.AwaitMessages(1));
  EXPECT_TRUE(second_ear.heard().empty());
}

TEST_F(SubscriptionTest, Unsubscribe_WhileItsCallbackRuns_WaitsForItsEnd) {
  const RedisServer server;
  MetricsRegistry registry;
  const auto client = Client(server.url(), {.metrics = &registry});
  std::latch entered(1);
  std::latch may_leave(1);
  std::atomic<bool> left = false;
  RedisSubscription subscription = Subscribed(*client, "news", {.on_message = [&](std::string_view) {
    entered.count_down();
    may_leave.wait();
    left = true;
  }});
  server.Call({"PUBLISH", "news", "x"});
  entered.wait();
  std::atomic<bool> returned = false;
  std::thread ender([&] {
    subscription.Unsubscribe();
    EXPECT_TRUE(left);
    returned = true;
  });
  Await("the subscription's end to begin",
        [&] { return testing::Exported(registry, R"(stockade_redis_subscriptions{client="default"})") == 0; });
  Ear ear;
  const RedisSubscription other = *client->Subscribe("news", ear.subscriber());
  EXPECT_FALSE(returned);
  may_leave.count_down();
  ender.join();
  EXPECT_TRUE(ear.AwaitConfirmations(1));
}

TEST_F(SubscriptionTest, Callback_SubscribesAndSendsCommands_IsServed) {
  const RedisServer server;
  const auto client = Client(server.url());
  Ear inner_ear;
  RedisSubscription inner;
  std::promise<absl::StatusOr<RedisReply>> answer;
  absl::Status awaited;
  RedisSubscription outer = Subscribed(*client, "outer", {.on_message = [&](std::string_view) {
    inner = *client->Subscribe("inner", inner_ear.subscriber());
    awaited = inner.AwaitSubscribed(kLong);
    client->RunAsync(RedisCommand("ECHO").Arg("hello"),
                     [&](absl::StatusOr<RedisReply> reply) { answer.set_value(std::move(reply)); });
  }});
  server.Call({"PUBLISH", "outer", "x"});
  EXPECT_EQ(answer.get_future().get()->text(), "hello");
  EXPECT_TRUE(inner_ear.AwaitConfirmations(1));
  EXPECT_EQ(awaited.code(), absl::StatusCode::kFailedPrecondition) << awaited;
  EXPECT_EQ(server.Call({"PUBLISH", "inner", "y"}), "1");
  EXPECT_TRUE(inner_ear.AwaitMessage("y"));
}

TEST_F(SubscriptionTest, Callback_Throws_IsLoggedAndTheOthersHearIt) {
  const RedisServer server;
  const auto client = Client(server.url(), {.name = "shop"});
  std::mutex mutex;
  std::vector<std::string> logged;
  SetLogSink([&](LogSeverity severity, std::string_view message) {
    const std::lock_guard lock(mutex);
    logged.push_back(Concat(LogSeverityName(severity), " ", message));
  });
  Ear ear;
  {
    const RedisSubscription bad =
        Subscribed(*client, "news",
                   {.on_message = [](std::string_view) { throw std::runtime_error("too bad"); },
                    .on_subscribed = [] { throw 1; }});
    const RedisSubscription good = Subscribed(*client, "news", ear.subscriber());
    for (const char* text : {"1", "2"}) server.Call({"PUBLISH", "news", text});
    EXPECT_TRUE(ear.AwaitMessages(2));
  }
  SetLogSink({});
  EXPECT_EQ(ear.heard(), (std::vector<std::string>{"1", "2"}));
  const std::string threw = "ERROR redis 'shop': channel 'news': on_message threw: too bad";
  EXPECT_EQ(logged,
            (std::vector<std::string>{
                "ERROR redis 'shop': channel 'news': on_subscribed threw something that is not a std::exception", threw,
                threw}));
}

TEST_F(SubscriptionTest, ChannelAndPayload_AnyBytes_ArriveAsTheyAre) {
  const RedisServer server;
  const auto client = Client(server.url());
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  Ear ears[3];
  const std::string names[] = {all + "\r\n*3\r\n", "", std::string(kMaxRedisChannelBytes, '\0')};
  std::vector<RedisSubscription> subscriptions;
  for (int i = 0; i < 3; ++i) subscriptions.push_back(Subscribed(*client, names[i], ears[i].subscriber()));
  for (int i = 0; i < 3; ++i) {
    for (const std::string& payload : {all, std::string(), "$-1\r\n" + std::string(100'000, '\0')}) {
      EXPECT_EQ(server.Call({"PUBLISH", names[i], payload}), "1");
      EXPECT_TRUE(ears[i].AwaitMessage(payload));
    }
    EXPECT_EQ(ears[i].heard().size(), 3u);
  }
}

TEST_F(SubscriptionTest, Message_LargerThanTheBound_BreaksTheConnectionWhichComesBack) {
  const RedisServer server;
  const auto client = Client(server.url(), {.max_reply_bytes = 10'000});
  Ear ear;
  const RedisSubscription subscription = Subscribed(*client, "news", ear.subscriber());
  server.Call({"PUBLISH", "news", std::string(20'000, 'x')});
  ASSERT_TRUE(ear.AwaitConfirmations(2));
  server.Call({"PUBLISH", "news", "small"});
  ASSERT_TRUE(ear.AwaitMessage("small"));
  EXPECT_EQ(ear.heard().size(), 1u);
}

TEST_F(SubscriptionTest, Subscribe_BeyondTheBounds_IsRefusedAndNamesThem) {
  const RedisServer server;
  const auto client = Client(server.url(), {.max_channels = 2});
  Ear ear;
  RedisSubscription first = Subscribed(*client, "1", ear.subscriber());
  const RedisSubscription second = Subscribed(*client, "2", ear.subscriber());
  const RedisSubscription same = Subscribed(*client, "2", ear.subscriber());
  const absl::Status refused = client->Subscribe("3", ear.subscriber()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "redis 'default': max_channels (2) is reached");
  first.Unsubscribe();
  Await("room for another channel", [&] { return client->Subscribe("3", {}).ok(); });

  const absl::Status too_long =
      client->Subscribe(std::string(kMaxRedisChannelBytes + 1, 'x'), ear.subscriber()).status();
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(too_long.message(), "redis 'default': a channel name of 65537 bytes exceeds 65536");
}

TEST_F(SubscriptionTest, AwaitSubscribed_ServerIsAway_SaysWhy) {
  RedisServer server;
  const auto client = Client(server.url());
  server.Kill();
  RedisSubscription subscription = *client->Subscribe("a\nb", {});
  Await("an attempt to connect",
        [&] { return absl::IsUnavailable(subscription.AwaitSubscribed(absl::ZeroDuration())); });
  const absl::Status status = subscription.AwaitSubscribed(absl::Milliseconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), Concat("redis 'default': channel 'a\\nb': cannot connect to 127.0.0.1:", server.port(),
                                     ": Connection refused"));
  server.Restart();
  EXPECT_TRUE(subscription.AwaitSubscribed(kLong).ok());
  subscription.Unsubscribe();
  EXPECT_EQ(subscription.AwaitSubscribed(kLong).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SubscriptionTest, AwaitSubscribed_NoAnswerInTime_IsDeadlineExceeded) {
  RedisServer server;
  const auto client = Client(server.url());
  const RedisSubscription first = Subscribed(*client, "1", {});
  server.Pause();
  const RedisSubscription second = *client->Subscribe("2", {});
  const absl::Status status = second.AwaitSubscribed(absl::Milliseconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "redis 'default': channel '2': not confirmed within 1ms");
  server.Resume();
  EXPECT_TRUE(second.AwaitSubscribed(kLong).ok());
}

TEST_F(SubscriptionTest, ChannelIsForbidden_IsPermissionDeniedAndHoldsUpNoOther) {
  RedisServer server({.users = {"shop on >secret ~* resetchannels &open* +@all"}});
  const auto client = Client(Concat("redis://shop:secret@127.0.0.1:", server.port()));
  std::vector<RedisSubscription> open;
  std::optional<RedisSubscription> forbidden;
  // While the server stands still they gather in one command.
  server.Pause();
  for (int i = 0; i < 100; ++i) {
    open.push_back(*client->Subscribe(Concat("open ", i), {}));
    if (i == 50) forbidden = *client->Subscribe("closed", {});
  }
  server.Resume();
  for (const RedisSubscription& subscription : open) EXPECT_TRUE(subscription.AwaitSubscribed(kLong).ok());
  const absl::Status refused = forbidden->AwaitSubscribed(kLong);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  // It is tried again, because the server's rules may change.
  Ear ear;
  const RedisSubscription patient = *client->Subscribe("closed", ear.subscriber());
  server.Call({"ACL", "SETUSER", "shop", "&closed"});
  EXPECT_TRUE(ear.AwaitConfirmations(1));
}

TEST_F(SubscriptionTest, LastSubscriptionEnds_ConnectionIsClosedAfterATimeAndMadeAnew) {
  const RedisServer server;
  const auto client = Client(server.url() + "?client_name=shop",
                             {.connect_timeout = absl::Milliseconds(500), .command_timeout = absl::Milliseconds(500)});
  const auto connections = [&] {
    const std::string list = server.Call({"CLIENT", "LIST"}).text;
    int found = 0;
    for (size_t at = list.find("name=shop"); at != std::string::npos; at = list.find("name=shop", at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(connections(), 1);
  for (int round = 0; round < 2; ++round) {
    RedisSubscription subscription = Subscribed(*client, "news", {});
    EXPECT_EQ(connections(), 2);
    subscription.Unsubscribe();
    Await("the second connection's end", [&] { return connections() == 1; });
  }
}

TEST_F(SubscriptionTest, Storm_EightThreadsAndAPublisher_EndsAsWanted) {
  const RedisServer server;
  const auto client = Client(server.url(), {.max_backoff = absl::Milliseconds(50)});
  constexpr int kThreads = 8;
  constexpr int kNames = 5;
  std::atomic<bool> stop = false;
  std::thread publisher([&] {
    for (int i = 0; !stop; ++i) {
      EXPECT_TRUE(client->Run(RedisCommand("PUBLISH").Key(Concat("storm ", i % kNames)).Arg(i)).ok());
      if (i % 100 == 99) server.Call({"CLIENT", "KILL", "TYPE", "pubsub"});
    }
  });
  std::vector<std::thread> threads;
  std::atomic<int> after_end = 0;
  std::atomic<int64_t> heard = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(t + 1));
      for (int i = 0; i < Scaled(500, 5000); ++i) {
        std::atomic<bool> ended = false;
        RedisSubscription subscription =
            *client->Subscribe(Concat("storm ", random() % kNames), {.on_message = [&](std::string_view) {
                                 if (ended) ++after_end;
                                 ++heard;
                               }});
        if (random() % 4 == 0) {
          EXPECT_TRUE(subscription.AwaitSubscribed(kLong).ok());
        }
        subscription.Unsubscribe();
        ended = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  publisher.join();
  EXPECT_EQ(after_end, 0);
  EXPECT_GT(heard, 0);
  Await("no subscriber to be left", [&] { return server.Call({"PUBSUB", "CHANNELS"}).items.empty(); });
  for (int name = 0; name < kNames; ++name) EXPECT_EQ(SubscribersOf(server, Concat("storm ", name)), "0");
  // And it still works.
  Ear ear;
  const RedisSubscription subscription = Subscribed(*client, "storm 0", ear.subscriber());
  EXPECT_EQ(server.Call({"PUBLISH", "storm 0", "calm"}), "1");
  EXPECT_TRUE(ear.AwaitMessage("calm"));
}

TEST_F(SubscriptionTest, ClientIsDestroyed_CallbacksHaveEndedAndHandlesAreInert) {
  const RedisServer server;
  auto client = Client(server.url());
  std::latch entered(1);
  std::promise<void> may_leave;
  std::atomic<bool> left = false;
  RedisSubscription subscription = Subscribed(*client, "news", {.on_message = [&](std::string_view) {
    entered.count_down();
    may_leave.get_future().wait();
    left = true;
  }});
  RedisSubscription moved = Subscribed(*client, "news", {});
  server.Call({"PUBLISH", "news", "x"});
  entered.wait();
  std::thread destroyer([&] {
    client.reset();
    EXPECT_TRUE(left);
  });
  // Cancelled as soon as the destruction has begun, though the callback still runs.
  while (moved.AwaitSubscribed(absl::ZeroDuration()).code() != absl::StatusCode::kCancelled) std::this_thread::yield();
  may_leave.set_value();
  destroyer.join();
  EXPECT_EQ(subscription.AwaitSubscribed(kLong).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(subscription.channel(), "news");
  const RedisSubscription taken = std::move(moved);
  EXPECT_EQ(taken.channel(), "news");
  subscription.Unsubscribe();
  EXPECT_EQ(subscription.channel(), "");
}

TEST_F(SubscriptionTest, ClientIsDestroyed_WhileItConnects_WakesWhoAwaits) {
  RedisServer server;
  auto client = Client(server.url());
  server.Kill();
  const RedisSubscription subscription = *client->Subscribe("news", {});
  absl::Status awaited;
  std::thread waiter([&] { awaited = subscription.AwaitSubscribed(absl::InfiniteDuration()); });
  client.reset();
  waiter.join();
  EXPECT_EQ(awaited.code(), absl::StatusCode::kCancelled) << awaited;
}

TEST_F(SubscriptionTest, ForkedChild_DestroysTheHandle_LeavesTheParentsAlone) {
  const RedisServer server;
  const auto client = Client(server.url());
  Ear ear;
  RedisSubscription subscription = Subscribed(*client, "news", ear.subscriber());
  EXPECT_EQ(testing::InForkedChild([&] { subscription = RedisSubscription(); }), 0);
  EXPECT_EQ(server.Call({"PUBLISH", "news", "x"}), "1");
  EXPECT_TRUE(ear.AwaitMessage("x"));
}

}  // namespace
}  // namespace stockade
