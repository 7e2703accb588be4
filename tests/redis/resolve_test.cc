// A name server that does not answer. This program has its own getaddrinfo(3) for two names.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"

namespace {

// The answers to lookups of "slow.test" wait until it is open. Others are not kept waiting.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  int waiting = 0;
  int lookups = 0;
};
Gate& TheGate() {
  static auto* const gate = new Gate;
  return *gate;
}

}  // namespace

extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** result) {
  static auto* const real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  const bool numeric_only = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (numeric_only || (name != "slow.test" && name != "fast.test")) return real(host, service, hints, result);
  if (name == "slow.test") {
    std::unique_lock lock(TheGate().mutex);
    ++TheGate().lookups;
    ++TheGate().waiting;
    TheGate().changed.notify_all();
    TheGate().changed.wait(lock, [] { return TheGate().open; });
    --TheGate().waiting;
    TheGate().changed.notify_all();
  }
  return real("127.0.0.1", service, hints, result);
}

namespace stockade {
namespace {

using base_internal::Concat;
using testing::RedisServer;

class ResolveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    const std::lock_guard lock(TheGate().mutex);
    TheGate().open = false;
    TheGate().lookups = 0;
  }
  void TearDown() override { Answer(); }

  static void Answer() {
    std::unique_lock lock(TheGate().mutex);
    TheGate().open = true;
    TheGate().changed.notify_all();
    TheGate().changed.wait(lock, [] { return TheGate().waiting == 0; });
  }
  static int lookups() {
    const std::lock_guard lock(TheGate().mutex);
    return TheGate().lookups;
  }
  static int waiting() {
    const std::lock_guard lock(TheGate().mutex);
    return TheGate().waiting;
  }
  static void AwaitLookup() {
    std::unique_lock lock(TheGate().mutex);
    TheGate().changed.wait(lock, [] { return TheGate().waiting > 0; });
  }

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
  AwaitLookup();
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
  EXPECT_EQ(waiting(), 1) << "the name server has answered";
}

TEST_F(ResolveTest, NoAnswer_ManyAttemptsOfManyClients_ShareOneLookup) {
  const RedisServer server;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(RedisClient::Connect(Url("slow.test", server), {.connect_timeout = absl::Milliseconds(10)}).ok());
  }
  EXPECT_EQ(lookups(), 1);
}

TEST_F(ResolveTest, AnswerComesLate_WhatWaitsIsSent_AndTheNextLookupIsNew) {
  const RedisServer server;
  const RedisOptions options = {
      .connect_timeout = absl::Milliseconds(20), .wait_for_connection = false, .max_backoff = absl::Milliseconds(20)};
  auto client = RedisClient::Connect(Url("slow.test", server), options);
  ASSERT_TRUE(client.ok()) << client.status();
  auto waits = (*client)->RunFuture(RedisCommand("ECHO").Arg("x"), {.timeout = absl::Minutes(1)});
  AwaitLookup();
  Answer();
  EXPECT_EQ(waits.get().value().text(), "x");
  const int before = lookups();
  EXPECT_TRUE(RedisClient::Connect(Url("slow.test", server)).ok());
  EXPECT_EQ(lookups(), before + 1);
}

}  // namespace
}  // namespace stockade
