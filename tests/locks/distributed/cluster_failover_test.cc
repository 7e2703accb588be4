// Case 17 on a cluster that has a replica to stand in.
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "redis/support/redis_cluster.h"

namespace stockade {
namespace {

using testing::ConnectLockService;
using testing::LostSignal;
using testing::MustAcquire;
using testing::MustInspect;

TEST(ClusterFailoverTest, Master_IsKilled_HolderAndWaiterLearnWhatBecameOfTheHold) {
  STOCKADE_NEEDS_REDIS();
  constexpr absl::Duration kLease = absl::Seconds(12);
  testing::RedisCluster cluster({.replicas = true});
  cluster.AwaitSettled();
  // Calls wait until a replica has taken over.
  const LockServiceOptions patient = {.watchdog_lease = kLease, .engine_timeout = testing::kPatience};
  const auto mine = ConnectLockService(cluster.url(), patient);
  const auto others = ConnectLockService(cluster.url(), patient);
  LockLease lease = MustAcquire(*mine, "seat");
  LostSignal lost(lease.lost());
  std::future<LockLease> waiter =
      std::async(std::launch::async, [&] { return MustAcquire(*others, "seat", {.wait = 4 * kLease}); });
  cluster.NodeOf("seat").Kill();
  cluster.AwaitSettled();
  // What the replica has is chance.
  const bool kept = MustInspect(*mine, "seat").owner_holds == 1;
  if (!kept) {
    EXPECT_TRUE(lost.Await());
    EXPECT_FALSE(lease.valid());
  }
  EXPECT_EQ(lease.Release().code(), kept ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(waiter.get().valid());
}

}  // namespace
}  // namespace stockade
