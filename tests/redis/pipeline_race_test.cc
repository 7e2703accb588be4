// Moments between the steps of a pipeline's roles, each held open or tried often.
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "link.h"
#include "pipeline.h"
#include "redis/support/connect_to.h"
#include "redis/support/raw_peer.h"
#include "redis/support/redis_server.h"
#include "redis_metrics.h"
#include "stockade/base/clock.h"
#include "stockade/base/timer_queue.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"

namespace stockade {
namespace {

using testing::ConnectTo;
using testing::RedisServer;
using testing::TcpProxy;

Instant Now() { return Clock::System()->Now(); }

class PipelineRaceTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

TEST_F(PipelineRaceTest, SocketFills_WhileTheDriverSleepsForReplies_TheRestIsSent) {
  RedisServer server;
  const auto redis = ConnectTo(server.url(), {.command_timeout = absl::Seconds(20)});
  const std::string large(20'000'000, 'x');
  // Somebody's reply comes while a large command is on its way out: who drives then has seen nothing blocked yet, and
  // no reply is due that would wake it.
  std::jthread small([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_TRUE(redis->Run(RedisCommand("PING")).ok());
  });
  for (int64_t i = 0; i < testing::Scaled(10, 100); ++i) {
    const absl::StatusOr<RedisReply> reply = redis->RunFuture(RedisCommand("ECHO").Arg(large)).get();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->text().size(), large.size());
  }
}

TEST_F(PipelineRaceTest, CrowdWokenForNothing_StillTimesOut) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};  // Without SA_RESTART: it ends a sleep on a futex.
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  RedisServer server;
  TcpProxy proxy(server.port());
  const auto redis = ConnectTo(testing::RedisUrl(proxy.port()));
  proxy.Hold();
  // So that none of the others drives, which would end its sleep by another way.
  auto patient = redis->RunFuture(RedisCommand("PING"), {.timeout = absl::Minutes(5)});
  constexpr int kThreads = 40;
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const absl::Status status = redis->Run(RedisCommand("PING"), {.timeout = absl::Milliseconds(300)}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
      ++ended;
    });
  }
  const Instant deadline = Now() + absl::Seconds(60);
  while (ended < kThreads && Now() < deadline) {
    for (std::thread& thread : threads) pthread_kill(thread.native_handle(), SIGUSR1);
    poll(nullptr, 0, 5);
  }
  EXPECT_EQ(ended, kThreads);
  proxy.Release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(patient.get().ok());
}

TEST_F(PipelineRaceTest, StoppedAsCallersGiveUp_EachHasOneOfTheTwoErrors) {
  const redis_internal::PipelineOptions options = {.name = "test",
                                                   .connect_timeout = absl::Seconds(1),
                                                   .min_backoff = absl::Milliseconds(5),
                                                   .max_backoff = absl::Milliseconds(5),
                                                   .max_pending_commands = 100'000,
                                                   .max_unsent_bytes = 1 << 20};
  base_internal::TimerQueue timers(Clock::System());
  metrics_internal::ComponentMetrics metrics(nullptr, redis_internal::RedisMetricDefs(), {{"client", "test"}});
  for (int64_t round = 0; round < testing::Scaled(300, 3000); ++round) {
    const auto pipeline = *redis_internal::Pipeline::Start(
        [](Instant) { return absl::UnavailableError("nobody there"); }, options, &timers, &metrics);
    const Instant deadline = Now() + absl::Milliseconds(2);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        std::vector<redis_internal::Request> requests(100);
        for (redis_internal::Request& request : requests) request.wire = "PING\r\n";
        pipeline->Run(requests, deadline);
        for (const redis_internal::Request& request : requests) {
          EXPECT_TRUE(request.result.status().code() == absl::StatusCode::kUnavailable ||
                      request.result.status().code() == absl::StatusCode::kCancelled)
              << request.result.status();
        }
      });
    }
    while (Now() < deadline) std::this_thread::yield();
    pipeline->Stop();
    for (std::thread& thread : threads) thread.join();
  }
}

// Bytes that come while no command waits for any, and what the commands after them get.
TEST_F(PipelineRaceTest, StrayBytesOnAnIdleConnection_NoCommandGetsThem_AndTheNextConnectionIsGood) {
  for (const std::string stray : {"$5\r\nstray\r\n", "+st", ":"}) {
    testing::RawPeer peer([](size_t connection, const std::string& command) {
      return command == "PING" ? std::string("+PONG\r\n") : "+" + std::to_string(connection) + command + "\r\n";
    });
    std::atomic<int> fd = -1;
    base_internal::TimerQueue timers(Clock::System());
    metrics_internal::ComponentMetrics metrics(nullptr, redis_internal::RedisMetricDefs(), {{"client", "test"}});
    const auto pipeline = *redis_internal::Pipeline::Start(
        [&](Instant deadline) {
          auto link =
              redis_internal::Link::Connect({.host = "127.0.0.1", .port = peer.port()}, {}, size_t{1} << 20, deadline);
          if (link.ok()) fd = (*link)->fd();
          return link;
        },
        {.name = "test",
         .connect_timeout = absl::Seconds(10),
         .min_backoff = absl::Milliseconds(5),
         .max_backoff = absl::Milliseconds(5),
         .max_pending_commands = 100,
         .max_unsent_bytes = 1 << 20},
        &timers, &metrics);
    ASSERT_TRUE(pipeline->AwaitFirstAttempt().ok());
    const auto ask = [&](bool alone) {
      redis_internal::Request request;
      request.wire = RedisCommand("mine").Wire();
      if (alone) {
        pipeline->Run({&request, 1}, Now() + absl::Seconds(60));
        return request.result;
      }
      std::promise<absl::StatusOr<RedisReply>> promise;
      auto async = std::make_unique<redis_internal::AsyncRequest>();
      async->wire = request.wire;
      async->deadline = Now() + absl::Seconds(60);
      async->done = [&](absl::StatusOr<RedisReply> reply) { promise.set_value(std::move(reply)); };
      pipeline->RunAsync(std::move(async));
      return promise.get_future().get();
    };
    for (size_t i = 0; i < 4; ++i) {
      const absl::StatusOr<RedisReply> reply = ask(i % 2 == 0);
      EXPECT_TRUE(reply.ok()) << reply.status();
      if (!reply.ok()) break;
      EXPECT_EQ(reply->text(), std::to_string(i) + "mine") << stray;
      if (peer.connections() != i + 1) break;
      peer.SendTo(i, stray);
      pollfd came{.fd = fd, .events = POLLIN, .revents = 0};
      EXPECT_EQ(poll(&came, 1, 60'000), 1);
    }
    pipeline->Stop();
  }
}

// Pipelines themselves, to a proxy that holds everything back.
class HeldPipelineTest : public PipelineRaceTest {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    server_.emplace();
    proxy_.emplace(server_->port());
    const redis_internal::PipelineOptions options = {.name = "test",
                                                     .connect_timeout = absl::Seconds(10),
                                                     .min_backoff = absl::Milliseconds(5),
                                                     .max_backoff = absl::Milliseconds(5),
                                                     .max_pending_commands = 100'000,
                                                     .max_unsent_bytes = 1 << 20};
    pipeline_ = *redis_internal::Pipeline::Start(
        [port = proxy_->port()](Instant deadline) {
          return redis_internal::Link::Connect({.host = "127.0.0.1", .port = port}, {}, 1 << 20, deadline);
        },
        options, &timers_, &metrics_);
    ASSERT_TRUE(pipeline_->AwaitFirstAttempt().ok());
    proxy_->Hold();
  }
  void TearDown() override {
    if (pipeline_ != nullptr) pipeline_->Stop();
  }

  absl::Status Ping(absl::Duration timeout) {
    redis_internal::Request request;
    request.wire = RedisCommand("PING").Wire();
    pipeline_->Run({&request, 1}, Now() + timeout);
    return request.result.status();
  }
  void AwaitPending(size_t count) {
    testing::Await("commands to be pending", [&] { return pipeline_->pending() == count; });
  }
  // So that what comes next waits to be sent until a reply comes.
  void FillFlushes(int count) {
    for (int i = 0; i < count; ++i) EXPECT_TRUE(RedisOutcomeUnknown(Ping(absl::Milliseconds(10))));
  }

  std::optional<RedisServer> server_;
  std::optional<TcpProxy> proxy_;
  base_internal::TimerQueue timers_{Clock::System()};
  metrics_internal::ComponentMetrics metrics_{nullptr, redis_internal::RedisMetricDefs(), {{"client", "test"}}};
  std::shared_ptr<redis_internal::Pipeline> pipeline_;
};

// Every 1,024th place has the same wake-up. The first caller's reply is received long before the last one's.
TEST_F(HeldPipelineTest, SleepersThatShareAWakeUp_EachReturnsWithItsOwnReply) {
  for (int64_t round = 0; round < testing::Scaled(20, 500); ++round) {
    if (round > 0) proxy_->Hold();
    // Has the background thread drive, so that all callers sleep.
    std::promise<absl::Status> promise;
    auto async = std::make_unique<redis_internal::AsyncRequest>();
    async->wire = RedisCommand("PING").Wire();
    async->deadline = Now() + absl::Minutes(5);
    async->done = [&](const absl::StatusOr<RedisReply>& reply) { promise.set_value(reply.status()); };
    pipeline_->RunAsync(std::move(async));
    std::vector<std::thread> threads;
    size_t pending = 1;
    const auto call = [&](size_t commands, const std::string& text) {
      threads.emplace_back([this, commands, text] {
        std::vector<redis_internal::Request> requests(commands);
        for (redis_internal::Request& request : requests) request.wire = RedisCommand("ECHO").Arg(text).Wire();
        pipeline_->Run(requests, Now() + absl::Minutes(5));
        for (const redis_internal::Request& request : requests) {
          ASSERT_TRUE(request.result.ok()) << request.result.status();
          EXPECT_EQ(request.result->text(), text);
        }
      });
      AwaitPending(pending += commands);
    };
    call(1, "first");
    call(1023, std::string(200, 'x'));
    call(1, "last");
    for (int i = 0; i < 30; ++i) call(1, "crowd" + std::to_string(i));
    const Instant released = Now();
    proxy_->Release();
    for (std::thread& thread : threads) thread.join();
    // A sleeper that nobody woke would return at its deadline, with its reply.
    ASSERT_LT(Now() - released, absl::Minutes(1));
    EXPECT_EQ(promise.get_future().get(), absl::OkStatus());
  }
}

TEST_F(HeldPipelineTest, DriverWithNothingSent_IsToldAtOnce) {
  FillFlushes(8);
  const Instant begin = Now();
  std::thread caller([&] { EXPECT_EQ(Ping(absl::Seconds(20)).code(), absl::StatusCode::kAborted); });
  AwaitPending(1);
  pipeline_->Retire(absl::AbortedError("retired"));
  caller.join();
  EXPECT_LT(Now() - begin, absl::Seconds(10));
}

TEST_F(HeldPipelineTest, DriverWithNothingSent_LeavesTheRoleToWhoWaitsForAReply) {
  std::thread first([&] { EXPECT_TRUE(RedisOutcomeUnknown(Ping(absl::Seconds(3)))); });
  AwaitPending(1);
  std::thread sent([&] { EXPECT_EQ(Ping(absl::Seconds(20)), absl::OkStatus()); });
  AwaitPending(2);
  FillFlushes(6);
  // Drives once the first has given up, being the last that came, until its own time is over.
  std::thread unsent([&] { EXPECT_EQ(Ping(absl::Seconds(10)).code(), absl::StatusCode::kAborted); });
  AwaitPending(3);
  first.join();
  pipeline_->Retire(absl::AbortedError("retired"));
  unsent.join();
  proxy_->Release();
  sent.join();
}

}  // namespace
}  // namespace stockade
