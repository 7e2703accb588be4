// What is made of lock services, where a Redis server goes and comes.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "redis/support/redis_server.h"
#include "stockade/locks/acquire_all.h"
#include "stockade/locks/fallback_lock_service.h"
#include "stockade/locks/redis_lock_service.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using testing::RedisServer;

class ComposedOverRedisTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  static std::unique_ptr<LockService> Connect(const RedisServer& server) {
    return RedisLockService::Connect(server.url(), {.service = {.engine_timeout = absl::Seconds(1), .metrics = nullptr},
                                                    .redis = {.metrics = nullptr}})
        .value();
  }
};

TEST_F(ComposedOverRedisTest, AcquireAll_OneServerKilled_IsUnavailable_AndNothingIsHeld) {
  RedisServer up, down;
  const auto first = Connect(up), second = Connect(down);
  const std::array<LockTarget, 2> targets = {{{first.get(), "a"}, {second.get(), "a"}}};
  {
    const LockLeases held = AcquireAll(targets).value();
    EXPECT_EQ(up.Call({"EXISTS", "a"}), "1");
    EXPECT_EQ(down.Call({"EXISTS", "a"}), "1");
  }
  down.Kill();
  const absl::Status status = AcquireAll(targets).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(std::to_string(down.port())), std::string::npos) << status;
  EXPECT_EQ(up.Call({"EXISTS", "a"}), "0");
}

TEST_F(ComposedOverRedisTest, Fallback_ServerKilledAndBack_IsDegradedUntilThen) {
  RedisServer server;
  const auto locks =
      FallbackLockService::Create(Connect(server), {.engine_timeout = absl::Milliseconds(100), .metrics = nullptr})
          .value();
  EXPECT_FALSE(locks->Acquire("a").value().degraded());
  server.Kill();
  EXPECT_TRUE(locks->Acquire("a").value().degraded());
  server.Restart();
  LockLease held;
  Await("the server", [&] {
    LockLease lease = locks->Acquire("a").value();
    if (lease.degraded()) return false;
    held = std::move(lease);
    return true;
  });
  EXPECT_EQ(server.Call({"EXISTS", "a"}), "1");
}

}  // namespace
}  // namespace stockade
