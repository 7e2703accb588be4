// Case 17, where the servers forget, restart or are replaced.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using testing::IsFree;
using testing::kPatience;
using testing::kSlack;
using testing::LostSignal;
using testing::MustAcquire;
using testing::MustInspect;
using testing::Stopwatch;

class OverwrittenSuiteTest : public testing::LockSuiteTest {};
class LossSuiteTest : public testing::ServerLockSuiteTest {
 protected:
  // Longer than a failover takes, so that a hold may survive one.
  static constexpr absl::Duration kLease = absl::Seconds(20);

  // Its calls wait while no server is there, or none has taken over yet.
  std::unique_ptr<LockService> NewPatient(absl::Duration lease = kLease) {
    return deployment_->NewClient({.watchdog_lease = lease, .engine_timeout = kPatience});
  }
};

INSTANTIATE_TEST_SUITE_P(Locks, OverwrittenSuiteTest, ::testing::ValuesIn(testing::LockSetups()),
                         testing::LockSetupName);
INSTANTIATE_TEST_SUITE_P(Locks, LossSuiteTest, ::testing::ValuesIn(testing::ServerSetups()), testing::LockSetupName);

TEST_P(OverwrittenSuiteTest, Acquire_HoldWasTakenAwayUnnoticed_IsNotReleasedByTheOlderLease) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    LockLease old = MustAcquire(*mine, name, {.kind = kind});
    ASSERT_TRUE(others->ForceRelease(name).value());
    LockLease next = MustAcquire(*mine, name, {.kind = kind});
    EXPECT_EQ(next.hold_count(), 1) << LockKindName(kind);
    EXPECT_FALSE(old.valid()) << LockKindName(kind);
    EXPECT_EQ(old.Release().code(), absl::StatusCode::kFailedPrecondition) << LockKindName(kind);
    EXPECT_TRUE(next.valid()) << LockKindName(kind);
    EXPECT_EQ(MustInspect(*mine, name).owner_holds, 1) << LockKindName(kind);
    EXPECT_TRUE(next.Release().ok()) << LockKindName(kind);
  }
}

TEST_P(LossSuiteTest, Servers_Emptied_HolderAndWaiterLearnWithinARenewalAndTokensGrow) {
  constexpr absl::Duration kRenewal = absl::Seconds(2);
  const auto mine = NewClient(3 * kRenewal);
  const auto others = NewClient(3 * kRenewal);
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name);
  LostSignal lost(lease.lost());
  std::future<LockLease> waiter = std::async(std::launch::async, [&] { return MustAcquire(*others, name); });
  Await("a listener", [&] { return servers_->Listened(name); });
  servers_->Empty();
  const Stopwatch watch;
  EXPECT_TRUE(lost.Await());
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);
  const LockLease next = waiter.get();
  EXPECT_LT(watch.elapsed(), kRenewal + kSlack);
  EXPECT_TRUE(next.valid());
  if (!HasTokens()) return;
  const absl::StatusOr<int64_t> token = next.fencing_token();
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_GT(*token, *lease.fencing_token());
}

TEST_P(LossSuiteTest, Servers_RestartWithTheirData_TheHoldStays) {
  constexpr absl::Duration kLongerThanTheRestart = absl::Seconds(40);
  const auto mine = NewPatient(kLongerThanTheRestart);
  const auto others = NewPatient(kLongerThanTheRestart);
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name);
  std::future<LockLease> waiter =
      std::async(std::launch::async, [&] { return MustAcquire(*others, name, {.wait = 3 * kLongerThanTheRestart}); });
  servers_->RestartAll();
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(MustInspect(*mine, name).owner_holds, 1);
  const absl::Status released = lease.Release();
  EXPECT_TRUE(released.ok()) << released;
  EXPECT_TRUE(waiter.get().valid());
}

// What a failover keeps is chance; that both sides learn it is not.
TEST_P(LossSuiteTest, Server_IsKilled_HolderAndWaiterLearnWhatBecameOfTheHold) {
  const auto mine = NewPatient();
  const auto others = NewPatient();
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name);
  LostSignal lost(lease.lost());
  std::future<LockLease> waiter =
      std::async(std::launch::async, [&] { return MustAcquire(*others, name, {.wait = 4 * kLease}); });
  servers_->KillServerOf(name);
  const bool kept = MustInspect(*mine, name).owner_holds == 1;
  if (GetParam() == testing::LockSetup::kRedlock) {
    EXPECT_TRUE(kept);  // A majority had it all the time.
  }
  if (!kept) {
    EXPECT_TRUE(lost.Await());
    EXPECT_FALSE(lease.valid());
  }
  EXPECT_EQ(lease.Release().code(), kept ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition);
  LockLease next = waiter.get();
  EXPECT_TRUE(next.valid());
  EXPECT_FALSE(lease.valid());
  EXPECT_TRUE(next.Release().ok());
  EXPECT_TRUE(IsFree(*mine, name, LockKind::kReentrant));
}

TEST_P(LossSuiteTest, Connections_AreKilled_TheWatchdogGoesOn) {
  constexpr absl::Duration kWatched = absl::Seconds(3);
  const auto mine = NewClient(kWatched);
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name);
  for (int i = 0; i < 5; ++i) {
    servers_->KillConnections();
    // The last time long enough for a hold that nobody renews any more to lapse.
    const absl::Duration wait = i < 4 ? kWatched / 10 : kWatched;
    EXPECT_EQ(others->Acquire(name, {.wait = wait}).status().code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(lease.Release().ok());
}

}  // namespace
}  // namespace stockade
