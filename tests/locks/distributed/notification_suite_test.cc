// Case 20: the notification of a release is lost.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "locks/distributed/support/lock_suite.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using testing::kLongLease;
using testing::kPatience;
using testing::MustAcquire;

class NotificationSuiteTest : public testing::ServerLockSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, NotificationSuiteTest, ::testing::ValuesIn(testing::ServerSetups()),
                         testing::LockSetupName);

TEST_P(NotificationSuiteTest, Release_SomebodyListens_WakesTheWaiterLongBeforeTheLeaseIsOver) {
  static_assert(kPatience < kLongLease);
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name);
  std::future<LockLease> waiter = std::async(std::launch::async, [&] { return MustAcquire(*others, name); });
  Await("a listener", [&] { return servers_->Listened(name); });
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(waiter.get().valid());
}

// More than once: the connection that replaced the first one is no worse.
TEST_P(NotificationSuiteTest, Connections_AreKilledWhileSomebodyWaits_TheReleaseIsHeardAllTheSame) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (int round = 0; round < 3; ++round) {
    const std::string name = NewName();
    LockLease lease = MustAcquire(*mine, name);
    std::future<LockLease> waiter = std::async(std::launch::async, [&] { return MustAcquire(*others, name); });
    Await("a listener", [&] { return servers_->Listened(name); });
    servers_->KillConnections();
    const absl::Status released = lease.Release();
    EXPECT_TRUE(released.ok()) << released;
    EXPECT_TRUE(waiter.get().valid());
  }
}

TEST_P(NotificationSuiteTest, Connections_AreKilledWhileSomebodyWaits_ListensAgain) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name);
  std::future<LockLease> waiter = std::async(std::launch::async, [&] { return MustAcquire(*others, name); });
  Await("a listener", [&] { return servers_->Listened(name); });
  servers_->KillConnections();
  Await("a listener anew", [&] { return servers_->Listened(name); });
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(waiter.get().valid());
}

}  // namespace
}  // namespace stockade
