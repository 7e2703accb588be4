// What holds on every set-up: one server, Sentinels, a cluster. Each has one deployment for all of its tests, which
// keep to keys of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "redis/probe.h"
#include "redis/support/ear.h"
#include "redis/support/redis_deployment.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::Probe;
using testing::ProbeMaker;
using testing::RedisDeployment;
using testing::RedisSetup;
using testing::RunThreads;
using testing::Scaled;
using testing::Seed;

class RedisSuiteTest : public ::testing::TestWithParam<RedisSetup> {
 protected:
  static void TearDownTestSuite() { deployments_.clear(); }

  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    if (GetParam() >= RedisSetup::kTlsStandalone) {
      STOCKADE_NEEDS_OPENSSL();
    }
    std::unique_ptr<RedisDeployment>& deployment = deployments_[GetParam()];
    if (deployment == nullptr) deployment = std::make_unique<RedisDeployment>(GetParam());
    servers_ = deployment.get();
    // Connections are lost often here, and not for a reason that a pause would mend.
    absl::StatusOr<std::unique_ptr<RedisClient>> client =
        RedisClient::Connect(servers_->url(), {.command_timeout = absl::Seconds(30),
                                               .min_backoff = absl::Milliseconds(1),
                                               .max_backoff = absl::Milliseconds(50)});
    ASSERT_TRUE(client.ok()) << client.status();
    redis_ = *std::move(client);
  }

  std::string Run(const RedisCommand& command) {
    const absl::StatusOr<RedisReply> reply = redis_->Run(command);
    return reply.ok() ? reply->ToString() : reply.status().ToString();
  }

  // What the servers have, seen behind the client's back.
  int64_t Counter(const std::string& key) {
    const testing::RawReply reply = servers_->Call(key, {"GET", key});
    return reply.type == '_' ? 0 : std::stoll(reply.text);
  }

  RedisDeployment* servers_ = nullptr;
  std::unique_ptr<RedisClient> redis_;

 private:
  static std::map<RedisSetup, std::unique_ptr<RedisDeployment>> deployments_;
};

std::map<RedisSetup, std::unique_ptr<RedisDeployment>> RedisSuiteTest::deployments_;

// How often each key was incremented by commands that were answered, and by those of which that is not known.
struct Counted {
  std::atomic<int64_t> answered = 0;
  std::atomic<int64_t> unknown = 0;

  void Add(const absl::StatusOr<RedisReply>& reply) {
    if (reply.ok()) {
      ++answered;
    } else if (RedisOutcomeUnknown(reply.status())) {
      ++unknown;
    }
  }
};

TEST_P(RedisSuiteTest, Run_EveryKindOfCommandOfTheModules_IsAnswered) {
  EXPECT_EQ(Run(RedisCommand("SET").Key("lock").Arg("owner").Arg("NX").Arg("PX").Arg(60'000)), "OK");
  EXPECT_EQ(Run(RedisCommand("SET").Key("lock").Arg("other").Arg("NX").Arg("PX").Arg(60'000)), "(nil)");
  EXPECT_EQ(Run(RedisCommand("GET").Key("lock")), "\"owner\"");
  const int64_t left = redis_->Run(RedisCommand("PTTL").Key("lock")).value().integer();
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 60'000);
  EXPECT_EQ(Run(RedisCommand("PEXPIRE").Key("lock").Arg(0)), "1");
  EXPECT_EQ(Run(RedisCommand("EXISTS").Key("lock")), "0");
  EXPECT_EQ(Run(RedisCommand("EXPIRE").Key("lock").Arg(10)), "0");

  EXPECT_EQ(Run(RedisCommand("HINCRBY").Key("hash").Arg("field").Arg(2)), "2");
  EXPECT_EQ(Run(RedisCommand("HSET").Key("hash").Arg("other").Arg("x")), "1");
  EXPECT_EQ(Run(RedisCommand("HMGET").Key("hash").Arg("field").Arg("none").Arg("other")), "[\"2\", (nil), \"x\"]");
  EXPECT_EQ(Run(RedisCommand("HDEL").Key("hash").Arg("field")), "1");

  EXPECT_EQ(Run(RedisCommand("RPUSH").Key("list").Arg("a").Arg("b")), "2");
  EXPECT_EQ(Run(RedisCommand("LRANGE").Key("list").Arg(0).Arg(-1)), "[\"a\", \"b\"]");
  EXPECT_EQ(Run(RedisCommand("LPOP").Key("list")), "\"a\"");

  EXPECT_EQ(Run(RedisCommand("ZADD").Key("zset").Arg(2).Arg("late").Arg(1).Arg("early")), "2");
  EXPECT_EQ(Run(RedisCommand("ZRANGEBYSCORE").Key("zset").Arg("-inf").Arg(1)), "[\"early\"]");
  EXPECT_EQ(Run(RedisCommand("ZSCORE").Key("zset").Arg("late")), "\"2\"");

  EXPECT_EQ(Run(RedisCommand("SADD").Key("set").Arg("a").Arg("b").Arg("a")), "2");
  EXPECT_EQ(Run(RedisCommand("SISMEMBER").Key("set").Arg("b")), "1");
  EXPECT_EQ(Run(RedisCommand("SREM").Key("set").Arg("a").Arg("b")), "2");

  EXPECT_EQ(Run(RedisCommand("PUBLISH").Arg("nobody_hears").Arg("x")), "0");
  EXPECT_EQ(RedisErrorCode(redis_->Run(RedisCommand("HGET").Key("list").Arg("x")).status()), "WRONGTYPE");
  EXPECT_EQ(Run(RedisCommand("DEL").Key("hash")), "1");
}

TEST_P(RedisSuiteTest, Scripts_OfKeysOfOneSlot_RunWhateverTheServersHaveForgotten) {
  const RedisScript move(
      "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[2]) "
      "return redis.call('MGET', KEYS[1], KEYS[2])");
  const auto run_all = [&](std::string_view when) {
    for (int i = 0; i < 12; ++i) {  // On all nodes of a cluster.
      const std::string tag = "{script" + std::to_string(i) + "}";
      EXPECT_EQ(Run(RedisCommand(move, {tag + "from", tag + "to"}).Arg(i).Arg(i + 1).Idempotent()),
                "[\"" + std::to_string(i) + "\", \"" + std::to_string(i + 1) + "\"]")
          << when;
    }
  };
  run_all("the first time");
  servers_->FlushScripts();
  run_all("after SCRIPT FLUSH");
  servers_->KillConnections();
  run_all("after CLIENT KILL");
  servers_->RestartAll();
  run_all("after a restart");

  // SCRIPT has no key: what is loaded is known where the command happened to go.
  const std::string sha(move.sha1());
  EXPECT_EQ(Run(RedisCommand("SCRIPT").Arg("LOAD").Arg(move.source())), "\"" + sha + "\"");
  EXPECT_EQ(redis_->Run(RedisCommand("SCRIPT").Arg("EXISTS").Arg(sha).Arg("0")).value().elements().size(), 2);
}

TEST_P(RedisSuiteTest, ManyAtOnce_OverAllKeys_EachHasItsOwnReply) {
  std::vector<RedisCommand> commands;
  for (int i = 0; i < 1000; ++i) {
    commands.push_back(RedisCommand("INCRBY").Key("many" + std::to_string(i)).Arg(i));
  }
  const auto replies = redis_->RunMany(commands);
  ASSERT_EQ(replies.size(), 1000);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(replies[i].value().integer(), i);

  std::vector<std::future<absl::StatusOr<RedisReply>>> futures;
  for (const RedisCommand& command : commands) futures.push_back(redis_->RunFuture(command));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(futures[i].get().value().integer(), 2 * i);

  std::promise<void> all;
  std::atomic<int> called = 0;
  for (int i = 0; i < 1000; ++i) {
    redis_->RunAsync(commands[i], [&, i](absl::StatusOr<RedisReply> reply) {
      EXPECT_EQ(reply.value().integer(), 3 * i);
      if (++called == 1000) all.set_value();
    });
  }
  all.get_future().get();
}

TEST_P(RedisSuiteTest, MixedCommands_OfManyThreads_EachHasItsOwnReply) {
  ProbeMaker::Prepare(*redis_);
  constexpr int kThreads = 64;
  constexpr int kCounters = 16;
  const int64_t each = Scaled(300, 10'000);
  const auto counter = [](int64_t i) { return "mixed" + std::to_string(i % kCounters); };
  RunThreads(kThreads, [&](int t) {
    ProbeMaker make("t" + std::to_string(t), Seed() + static_cast<uint64_t>(t));
    std::vector<int64_t> last(kCounters, 0);
    for (int64_t i = 0; i < each; ++i) {
      const absl::StatusOr<RedisReply> count = redis_->Run(RedisCommand("INCR").Key(counter(i)));
      ASSERT_TRUE(count.ok()) << count.status();
      ASSERT_GT(count->integer(), std::exchange(last[static_cast<size_t>(i % kCounters)], count->integer()));
      const Probe probe = make.Next();
      ASSERT_TRUE(probe.Answered(redis_->Run(probe.command)));
    }
  });
  int64_t total = 0;
  for (int i = 0; i < kCounters; ++i) total += Counter(counter(i));
  EXPECT_EQ(total, kThreads * each);
}

// Each transaction adds to two keys, which are equal whenever another one reads them. Connections are lost meanwhile.
TEST_P(RedisSuiteTest, Transactions_OfManyThreadsWithConnectionsKilled_AreAtomicAndMixWithNothing) {
  constexpr int kPairs = 12;
  const auto key = [](int64_t pair, const char* name) { return "{pair" + std::to_string(pair % kPairs) + "}" + name; };
  Counted counted[kPairs];
  std::atomic<int64_t> rounds = 0;
  std::atomic<bool> stop = false;
  std::thread killer([&] {
    for (int64_t i = 0; i < Scaled(10, 200); ++i) {
      const int64_t before = rounds;
      testing::Await("the load to get on", [&] { return rounds > before + 50; });
      servers_->KillConnections();
    }
    stop = true;
  });
  RunThreads(8, [&](int t) {
    for (int64_t i = t; !stop; ++i, ++rounds) {
      const std::string one = key(i, "one"), two = key(i, "two");
      const RedisCommand add[] = {RedisCommand("INCR").Key(one), RedisCommand("ECHO").Arg(i),
                                  RedisCommand("INCR").Key(two)};
      const RedisCommand read[] = {RedisCommand("GET").Key(one).Idempotent(),
                                   RedisCommand("GET").Key(two).Idempotent()};
      auto later = redis_->RunFuture(RedisCommand::Transaction(add));
      const auto echo = redis_->Run(RedisCommand("ECHO").Arg(-i).Idempotent());
      ASSERT_TRUE(echo.ok()) << echo.status();
      ASSERT_EQ(echo->text(), std::to_string(-i));
      const auto seen = redis_->RunTransaction(read);
      ASSERT_TRUE(seen.ok()) << seen.status();
      ASSERT_EQ((*seen)[0].value(), (*seen)[1].value());
      const absl::StatusOr<RedisReply> added = later.get();
      counted[i % kPairs].Add(added);
      ASSERT_TRUE(added.ok() || RedisOutcomeUnknown(added.status())) << added.status();
      if (added.ok()) {
        ASSERT_EQ(added->elements()[0], added->elements()[2]);
        ASSERT_EQ(added->elements()[1].text(), std::to_string(i));
      }
    }
  });
  killer.join();
  int64_t answered = 0;
  for (int i = 0; i < kPairs; ++i) {
    EXPECT_EQ(Counter(key(i, "one")), Counter(key(i, "two"))) << i;
    EXPECT_GE(Counter(key(i, "one")), counted[i].answered) << i;
    EXPECT_LE(Counter(key(i, "one")), counted[i].answered + counted[i].unknown) << i;
    answered += counted[i].answered;
  }
  EXPECT_GT(answered, 0);
}

TEST_P(RedisSuiteTest, ConnectionsKilledUnderLoad_EveryCommandIsAnsweredOrUnknown_AndTheCountsAddUp) {
  constexpr int kKeys = 24;
  const auto key = [](int64_t i) { return "killed" + std::to_string(i % kKeys); };
  Counted counted[kKeys];
  std::atomic<int64_t> rounds = 0;
  std::atomic<bool> lost_one = false;
  std::atomic<bool> stop = false;
  std::thread killer([&] {
    // On a busy machine all may have been answered whenever the connections are killed: then again.
    for (int64_t i = 0; i < 10 + Scaled(10, 200) || (!lost_one && i < 2000); ++i) {
      const int64_t before = rounds;
      testing::Await("the load to get on", [&] { return rounds > before + 20; });
      servers_->KillConnections();
    }
    stop = true;
  });
  RunThreads(8, [&](int t) {
    for (int64_t i = t; !stop; ++i, ++rounds) {
      const absl::StatusOr<RedisReply> run = redis_->Run(RedisCommand("INCR").Key(key(i)));
      counted[i % kKeys].Add(run);
      EXPECT_TRUE(run.ok() || RedisOutcomeUnknown(run.status())) << run.status();
      auto future = redis_->RunFuture(RedisCommand("INCR").Key(key(i)));
      const std::string mine = "t" + std::to_string(t) + ":" + std::to_string(i);
      const RedisCommand own[] = {RedisCommand("SET").Key(mine).Arg(i).Idempotent(),
                                  RedisCommand("GET").Key(mine).Idempotent(),
                                  RedisCommand("DEL").Key(mine).Idempotent()};
      for (const absl::StatusOr<RedisReply>& reply : redis_->RunMany(own)) EXPECT_TRUE(reply.ok()) << reply.status();
      const absl::StatusOr<RedisReply> later = future.get();
      counted[i % kKeys].Add(later);
      if (!run.ok() || !later.ok()) lost_one = true;
      EXPECT_TRUE(later.ok() || RedisOutcomeUnknown(later.status())) << later.status();
    }
  });
  killer.join();
  int64_t unknown = 0;
  for (int i = 0; i < kKeys; ++i) {
    EXPECT_GE(Counter(key(i)), counted[i].answered) << i;
    EXPECT_LE(Counter(key(i)), counted[i].answered + counted[i].unknown) << i;
    unknown += counted[i].unknown;
  }
  EXPECT_GT(unknown, 0) << "no reply was lost: the test tests nothing";
}

TEST_P(RedisSuiteTest, Channels_WhoseConnectionsAreKilled_AreHeardAgain) {
  constexpr int kChannels = 12;  // In a cluster on each of its nodes.
  testing::Ear ears[kChannels];
  std::vector<RedisSubscription> subscriptions;
  const auto channel = [](int i) { return "channel" + std::to_string(i); };
  const auto publish = [&](int i, const std::string& payload) {
    const RedisCommand command = RedisCommand(redis_->publish_command()).Key(channel(i)).Arg(payload).Idempotent();
    EXPECT_TRUE(redis_->Run(command).ok());
  };
  for (int i = 0; i < kChannels; ++i)
    subscriptions.push_back(redis_->Subscribe(channel(i), ears[i].subscriber()).value());
  for (int i = 0; i < kChannels; ++i) {
    EXPECT_TRUE(subscriptions[i].AwaitSubscribed(absl::Seconds(30)).ok());
    publish(i, "first");
    EXPECT_TRUE(ears[i].AwaitMessage("first"));
  }
  for (int round = 0; round < 3; ++round) {
    int before[kChannels];
    for (int i = 0; i < kChannels; ++i) before[i] = ears[i].confirmations();
    servers_->KillConnections();
    for (int i = 0; i < kChannels; ++i) {
      ASSERT_TRUE(ears[i].AwaitConfirmations(before[i] + 1)) << channel(i);
      // A connection may be killed once more as it comes back, and what is published then is missed.
      testing::Await("a message on " + channel(i), [&] {
        publish(i, std::to_string(round));
        const std::vector<std::string> heard = ears[i].heard();
        return std::find(heard.begin(), heard.end(), std::to_string(round)) != heard.end();
      });
    }
  }
}

// In a cluster, PUBLISH goes to any node, and patterns are heard over any other.
TEST_P(RedisSuiteTest, Patterns_WhoseConnectionsAreKilled_AreHeardAgainBesideChannels) {
  testing::Ear all, some, channel;
  const auto publish = [&](const std::string& to, const std::string& payload) {
    EXPECT_TRUE(redis_->Run(RedisCommand("PUBLISH").Arg(to).Arg(payload).RouteBy(to).Idempotent()).ok());
  };
  RedisSubscription subscriptions[] = {redis_->SubscribePattern("pattern.*", all.pattern_subscriber()).value(),
                                       redis_->SubscribePattern("pattern.[ab]", some.pattern_subscriber()).value(),
                                       redis_->Subscribe("pattern.*", channel.subscriber()).value()};
  for (const RedisSubscription& subscription : subscriptions) {
    ASSERT_TRUE(subscription.AwaitSubscribed(absl::Seconds(30)).ok());
    EXPECT_TRUE(subscription.channel() == "pattern.*" || subscription.channel() == "pattern.[ab]");
  }
  for (int round = 0; round < 3; ++round) {
    const std::string text = std::to_string(round);
    testing::Await("messages by patterns", [&] {
      for (const std::string to : {"pattern.a", "pattern.c", "other"}) publish(to, text);
      const std::vector<std::string> by_all = all.heard(), by_some = some.heard();
      const auto has = [](const std::vector<std::string>& heard, const std::string& message) {
        return std::find(heard.begin(), heard.end(), message) != heard.end();
      };
      return has(by_all, "pattern.a: " + text) && has(by_all, "pattern.c: " + text) &&
             has(by_some, "pattern.a: " + text);
    });
    const int before = all.confirmations();
    servers_->KillConnections();
    ASSERT_TRUE(all.AwaitConfirmations(before + 1));
  }
  for (const std::string& message : all.heard()) EXPECT_TRUE(message.starts_with("pattern.")) << message;
  for (const std::string& message : some.heard()) EXPECT_TRUE(message.starts_with("pattern.a: ")) << message;
  EXPECT_TRUE(channel.heard().empty());
  subscriptions[0].Unsubscribe();
  const RedisCommand to_channel = RedisCommand(redis_->publish_command()).Key("pattern.*").Arg("mine").Idempotent();
  testing::Await("the channel with a pattern's name", [&] {
    EXPECT_TRUE(redis_->Run(to_channel).ok());
    return !channel.heard().empty();
  });
  EXPECT_EQ(channel.heard().front(), "mine");
}

TEST_P(RedisSuiteTest, RestartedUnderLoad_WorksWithinTheTimeOut_AndTheCountsAddUp) {
  constexpr int kKeys = 24;
  const auto key = [](int64_t i) { return "restarted" + std::to_string(i % kKeys); };
  Counted counted[kKeys];
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = t; !stop; ++i) {
        counted[i % kKeys].Add(redis_->Run(RedisCommand("INCR").Key(key(i)), {.timeout = absl::Milliseconds(500)}));
      }
    });
  }
  testing::Await("the load", [&] {
    return std::all_of(std::begin(counted), std::end(counted), [](const Counted& key) { return key.answered > 0; });
  });
  servers_->RestartAll();
  for (int i = 0; i < kKeys; ++i) {
    // Those that are idempotent find the way by themselves, whatever was lost.
    EXPECT_EQ(Run(RedisCommand("SET").Key("back" + std::to_string(i)).Arg(i).Idempotent()), "OK");
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kKeys; ++i) {
    EXPECT_GE(Counter(key(i)), counted[i].answered) << i;
    EXPECT_LE(Counter(key(i)), counted[i].answered + counted[i].unknown) << i;
    const absl::StatusOr<RedisReply> reply = redis_->Run(RedisCommand("INCR").Key(key(i)));
    EXPECT_TRUE(reply.ok()) << reply.status();
  }
}

INSTANTIATE_TEST_SUITE_P(Redis, RedisSuiteTest, ::testing::ValuesIn(testing::RedisSetups()), testing::RedisSetupName);
INSTANTIATE_TEST_SUITE_P(RedisTls, RedisSuiteTest, ::testing::ValuesIn(testing::RedisTlsSetups()),
                         testing::RedisSetupName);

}  // namespace
}  // namespace stockade
