// Case 21: what a dead waiter costs the server.
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "locks/distributed/support/agent_process.h"
#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lock_suite.h"
#include "redis/support/redis_server.h"
#include "stockade/base/strings.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::AgentProcess;
using testing::Await;
using testing::ConnectLockService;
using testing::kLongLease;
using testing::MustAcquire;
using testing::RedisServer;
using testing::Stopwatch;

int64_t Queued(const RedisServer& server) {
  return std::stoll(server.Call({"LLEN", "redisson_lock_queue:{seat}"}).text);
}

int64_t Scripts(const RedisServer& server) {
  // "calls=5,usec=12,..."
  const std::string stats = testing::InfoField(server.Call({"INFO", "commandstats"}).text, "cmdstat_evalsha");
  return std::stoll(stats.substr(stats.find('=') + 1));
}

TEST(FairTriesTest, FirstWaiter_IsKilled_OthersTryAtMost10TimesASecondEach) {
  STOCKADE_NEEDS_REDIS();
  constexpr int kWaiters = 4;
  RedisServer server;
  const auto mine = ConnectLockService(server.url(), {.watchdog_lease = kLongLease});
  LockLease lease = MustAcquire(*mine, "seat", {.kind = LockKind::kFair});
  AgentProcess dead(server.url(), kLongLease);
  dead.Begin("acquire seat fair 30000 0");
  Await("a place in the queue", [&] { return Queued(server) == 1; });
  std::vector<std::unique_ptr<LockService>> clients;
  std::vector<std::future<bool>> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    clients.push_back(ConnectLockService(server.url(), {.watchdog_lease = kLongLease}));
    waiters.push_back(std::async(std::launch::async, [&locks = *clients.back()] {
      return MustAcquire(locks, "seat", {.kind = LockKind::kFair}).valid();
    }));
    Await("a place in the queue", [&] { return Queued(server) == i + 2; });
  }
  dead.End();
  EXPECT_TRUE(lease.Release().ok());
  const Stopwatch watch;
  const int64_t before = Scripts(server);
  for (auto& waiter : waiters) EXPECT_TRUE(waiter.get());
  const double tries = 10 * absl::ToDoubleSeconds(watch.elapsed()) * kWaiters;
  // In addition, each waiter enters and releases, some of them by more than one try.
  EXPECT_LT(static_cast<double>(Scripts(server) - before), tries + 5 * kWaiters);
}

}  // namespace
}  // namespace stockade
