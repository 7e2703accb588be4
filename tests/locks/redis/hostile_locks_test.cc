// A lock service on a cluster whose node lies, damages its replies and falls silent, by a seed: see HostileNode.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "redis/support/hostile_node.h"
#include "redis/support/hostile_run.h"
#include "stockade/base/strings.h"
#include "stockade/locks/lock_service.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::EndsInTime;
using testing::HostileNode;
using testing::HostileRun;
using testing::Scaled;

constexpr absl::Duration kEngineTimeout = absl::Milliseconds(200);

RedisLockOptions Options() {
  RedisLockOptions options;
  options.service.engine_timeout = kEngineTimeout;
  options.redis.connect_timeout = absl::Milliseconds(100);
  options.redis.max_backoff = absl::Milliseconds(50);
  options.redis.max_reply_bytes = size_t{4} << 20;
  options.redis.max_nodes = testing::kHostileMaxNodes;
  return options;
}

void Use(LockService& locks, int caller) {
  constexpr LockKind kKinds[] = {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite};
  for (int call = 0; call < 6; ++call) {
    const AcquireOptions options = {.kind = kKinds[(caller + call) % 4], .wait = absl::Milliseconds(50)};
    EndsInTime(options.wait + kEngineTimeout, [&] {
      absl::StatusOr<LockLease> lease = locks.Acquire(Concat("lock", (caller * call) % 3), options);
      if (lease.ok()) (void)lease->Release();
    });
  }
}

TEST(HostileLocksTest, AnySeed_CallsEndInTime_AndThreadsAndDescriptorsHaveABound) {
  constexpr int kCallers = 4;
  int connected = 0;
  // Callers, and the service's watchdog, timers and callbacks.
  HostileRun(Scaled(3, 10), /*clients=*/1, kCallers + 8, [&](const HostileNode& node, uint64_t) {
    std::unique_ptr<LockService> locks;
    for (int attempt = 0; attempt < 20 && locks == nullptr; ++attempt) {
      EndsInTime(kEngineTimeout, [&] {
        auto service = RedisLockService::Connect(node.url(), Options());
        if (service.ok()) locks = *std::move(service);
      });
    }
    if (locks == nullptr) return;
    ++connected;
    testing::RunThreads(kCallers, [&](int caller) { Use(*locks, caller); });
    EndsInTime(kEngineTimeout, [&] { (void)locks->ReleaseAll(kEngineTimeout); });
  });
  EXPECT_GT(connected, 0);
}

}  // namespace
}  // namespace stockade
