// A name server that does not answer: see slow_names.h.
#include "resolve.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "redis/support/redis_server.h"
#include "redis/support/slow_names.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::RedisServer;
using testing::SlowNames;

class ResolveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    SlowNames::Reset();
  }
  void TearDown() override { SlowNames::Answer(); }

  static std::string Url(const std::string& host, const RedisServer& server) {
    return Concat("redis://", host, ":", server.port());
  }
};

TEST_F(ResolveTest, NoAnswer_ConnectEndsInTime_AndSaysSo) {
  const RedisServer server;
  const absl::Status status =
      RedisClient::Connect(Url("slow.test", server), {.connect_timeout = absl::Milliseconds(50)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(
                Concat("cannot connect to slow.test:", server.port(), ": its name was not resolved in time")),
            std::string::npos)
      << status;
}

TEST_F(ResolveTest, NoAnswer_OtherClientsConnect_DeadlinesHold_AndTheDestructorReturns) {
  const RedisServer server;
  auto slow = RedisClient::Connect(Url("slow.test", server), {.wait_for_connection = false});
  ASSERT_TRUE(slow.ok()) << slow.status();
  SlowNames::AwaitWaiting(1);
  for (const std::string host : {"fast.test", "127.0.0.1", "localhost"}) {
    const auto fast = RedisClient::Connect(Url(host, server));
    ASSERT_TRUE(fast.ok()) << fast.status();
    EXPECT_TRUE((*fast)->Run(RedisCommand("PING")).ok());
  }
  const RedisCommand ping("PING");
  EXPECT_TRUE(absl::IsUnavailable((*slow)->Run(ping, {.timeout = absl::Milliseconds(10)}).status()));
  EXPECT_TRUE(absl::IsUnavailable((*slow)->RunFuture(ping, {.timeout = absl::Milliseconds(10)}).get().status()));
  auto waits = (*slow)->RunFuture(ping, {.timeout = absl::Minutes(1)});
  slow->reset();
  EXPECT_FALSE(waits.get().ok());
  EXPECT_EQ(SlowNames::waiting(), 1) << "the name server has answered";
}

TEST_F(ResolveTest, NoAnswer_ManyAttemptsOfManyClients_ShareOneLookup) {
  const RedisServer server;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(RedisClient::Connect(Url("slow.test", server), {.connect_timeout = absl::Milliseconds(10)}).ok());
  }
  EXPECT_EQ(SlowNames::lookups(), 1);
}

TEST_F(ResolveTest, AnswerComesLate_WhatWaitsIsSent_AndTheNextLookupIsNew) {
  const RedisServer server;
  const RedisOptions options = {
      .connect_timeout = absl::Milliseconds(20), .wait_for_connection = false, .max_backoff = absl::Milliseconds(20)};
  auto client = RedisClient::Connect(Url("slow.test", server), options);
  ASSERT_TRUE(client.ok()) << client.status();
  auto waits = (*client)->RunFuture(RedisCommand("ECHO").Arg("x"), {.timeout = absl::Minutes(1)});
  SlowNames::AwaitWaiting(1);
  SlowNames::Answer();
  EXPECT_EQ(waits.get().value().text(), "x");
  const int before = SlowNames::lookups();
  EXPECT_TRUE(RedisClient::Connect(Url("slow.test", server)).ok());
  EXPECT_EQ(SlowNames::lookups(), before + 1);
}

// Of one client, without servers.
class ResolverTest : public ::testing::Test {
 protected:
  using Resolver = redis_internal::Resolver;
  static constexpr int kMax = Resolver::kMaxLookups;

  void SetUp() override { SlowNames::Reset(); }
  void TearDown() override {
    SlowNames::Answer();
    for (std::thread& thread : threads_) thread.join();
  }

  static std::string Name(int i) { return Concat("n", i, ".slow.test"); }
  static absl::Status Resolve(Resolver& resolver, const std::string& host, absl::Duration timeout) {
    return resolver.Resolve(host, Clock::System()->Now() + timeout).status();
  }
  // Calls that wait until they are answered.
  void Begin(Resolver& resolver, int first, int count) {
    for (int i = first; i < first + count; ++i) {
      threads_.emplace_back(
          [&resolver, i] { EXPECT_EQ(Resolve(resolver, Name(i), absl::Minutes(1)), absl::OkStatus()); });
    }
  }
  static void ExpectNoTurn(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "its name was not resolved in time: the client resolves 8 others");
  }

  const std::shared_ptr<Resolver> resolver_ = std::make_shared<Resolver>();
  std::vector<std::thread> threads_;
};

TEST_F(ResolverTest, OneFewerThanTheBound_OneMoreIsLookedUp) {
  Begin(*resolver_, 0, kMax - 1);
  SlowNames::AwaitWaiting(kMax - 1);
  const absl::Status status = Resolve(*resolver_, Name(kMax), absl::Milliseconds(20));
  EXPECT_EQ(status.message(), "its name was not resolved in time");
  SlowNames::AwaitWaiting(kMax);
}

TEST_F(ResolverTest, AsManyAsTheBound_OthersWait_ButNeitherTheSameNamesNorAddressesNorOtherClients) {
  Begin(*resolver_, 0, kMax);
  SlowNames::AwaitWaiting(kMax);
  for (int i = 0; i < 3; ++i) ExpectNoTurn(Resolve(*resolver_, Name(kMax + i), absl::Milliseconds(20)));
  ExpectNoTurn(Resolve(*resolver_, "fast.test", absl::ZeroDuration()));
  EXPECT_EQ(Resolve(*resolver_, Name(0), absl::Milliseconds(20)).message(), "its name was not resolved in time");
  EXPECT_TRUE(Resolve(*resolver_, "127.0.0.1", absl::ZeroDuration()).ok());
  EXPECT_EQ(SlowNames::lookups(), kMax);
  const auto other = std::make_shared<Resolver>();
  EXPECT_TRUE(Resolve(*other, "fast.test", absl::Minutes(1)).ok());
  Begin(*other, kMax, kMax);
  SlowNames::AwaitWaiting(2 * kMax);
  // A name that another client resolves takes no turn.
  EXPECT_EQ(Resolve(*resolver_, Name(kMax), absl::Milliseconds(20)).message(), "its name was not resolved in time");
  EXPECT_EQ(SlowNames::most_waiting(), 2 * kMax);
}

TEST_F(ResolverTest, ThriceTheBound_AllHaveTheirTurn) {
  Begin(*resolver_, 0, 3 * kMax);
  SlowNames::AwaitWaiting(kMax);
  while (SlowNames::lookups() < 3 * kMax) SlowNames::LetGo(1);
  EXPECT_EQ(SlowNames::most_waiting(), kMax);
}

TEST_F(ResolverTest, CallsThatGaveUp_TheirLookupsCountUntilTheyEnd) {
  for (int i = 0; i < kMax; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(Resolve(*resolver_, Name(i), absl::Milliseconds(1))));
  }
  ExpectNoTurn(Resolve(*resolver_, Name(kMax), absl::Milliseconds(20)));
  SlowNames::AwaitWaiting(kMax);
  SlowNames::Answer();
  EXPECT_TRUE(Resolve(*resolver_, Name(kMax), absl::Minutes(1)).ok());
}

}  // namespace
}  // namespace stockade
