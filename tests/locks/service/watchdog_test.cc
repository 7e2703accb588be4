// Leases without a length live until they are released, and no longer.
#include <atomic>
#include <thread>

#include "locks/service/service_fixture.h"
#include "support/exported.h"

namespace stockade {
namespace {

using testing::Fault;
using testing::ServiceTest;

class WatchdogTest : public ServiceTest {
 protected:
  // Moves the clock on, and waits until the watchdog has asked the engine that often in all.
  void AdvanceToRenewal(absl::Duration span, int renewals) {
    clock_.AwaitWaiters(1);
    clock_.Advance(span);
    while (world_->renewals < renewals) std::this_thread::yield();
  }
};

TEST_F(WatchdogTest, TenLeasesLong_IsHeldThroughout) {
  LockLease lease = Must(service_->Acquire("a"));
  for (int i = 1; i <= 30; ++i) {
    AdvanceToRenewal(kWatchdogLease / 3, i);
    EXPECT_TRUE(lease.valid());
    EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
  }
  EXPECT_TRUE(lease.Release().ok());
}

TEST_F(WatchdogTest, Released_IsNotRenewedAnyMore) {
  LockLease lease = Must(service_->Acquire("a"));
  const LockLease other = Must(service_->Acquire("b"));
  ASSERT_TRUE(lease.Release().ok());
  AdvanceToRenewal(kWatchdogLease / 3, 1);
  AdvanceToRenewal(kWatchdogLease / 3, 2);
  EXPECT_EQ(world_->renewals, 2) << "of the other one";
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 0);
}

TEST_F(WatchdogTest, LeaseGiven_IsNotRenewed) {
  const LockLease lease = Must(service_->Acquire("a", {.lease = kWatchdogLease}));
  clock_.AwaitWaiters(1);
  clock_.Advance(kWatchdogLease);
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(world_->renewals, 0);
}

TEST_F(WatchdogTest, WatchedLeaseReleasedFirst_WhatIsLeftLapses) {
  LockLease watched = Must(service_->Acquire("a"));
  const LockLease inner = Must(service_->Acquire("a", {.lease = absl::Seconds(1)}));
  ASSERT_TRUE(watched.Release().ok());
  EXPECT_TRUE(inner.valid());
  clock_.AwaitWaiters(1);
  clock_.Advance(kWatchdogLease);
  EXPECT_FALSE(inner.valid());
  EXPECT_EQ(world_->renewals, 0);
}

TEST_F(WatchdogTest, TakenByForce_IsLostAtTheNextRenewal) {
  const LockLease lease = Must(service_->Acquire("a"));
  std::atomic<bool> lost = false;
  const std::stop_callback on_lost(lease.lost(), [&lost] {
    lost = true;
    lost.notify_all();
  });
  ASSERT_TRUE(*service_->ForceRelease("a"));
  EXPECT_TRUE(lease.valid());
  clock_.AwaitWaiters(1);
  clock_.Advance(kWatchdogLease / 3);
  lost.wait(false);
  EXPECT_FALSE(lease.valid());
}

TEST_F(WatchdogTest, RenewalFails_IsTriedAgainWithinTheLease) {
  const LockLease lease = Must(service_->Acquire("a"));
  world_->on_renewal = [this](const LockRenewal&) { return world_->renewals < 5 ? Fault::kRefused : Fault::kNone; };
  AdvanceToRenewal(kWatchdogLease / 3, 1);
  for (int i = 2; i <= 5; ++i) AdvanceToRenewal(kWatchdogLease / 20, i);
  clock_.AwaitWaiters(1);
  clock_.Advance(kWatchdogLease / 3 - absl::Seconds(1));
  EXPECT_TRUE(lease.valid());
  EXPECT_GT(lease.remaining(), kWatchdogLease / 2) << "counted from the renewal that was answered";
}

TEST_F(WatchdogTest, RenewalIsAnsweredLate_ItsLeaseCountsFromWhenItWasSent) {
  const LockLease lease = Must(service_->Acquire("a"));
  world_->on_renewal = [this](const LockRenewal&) {
    if (world_->renewals > 1) return Fault::kReplyLost;
    clock_.Advance(absl::Seconds(2));
    return Fault::kNone;
  };
  AdvanceToRenewal(kWatchdogLease / 3, 1);
  clock_.AwaitWaiters(1);
  clock_.Advance(kWatchdogLease - absl::Seconds(2));
  EXPECT_FALSE(lease.valid());
}

TEST_F(WatchdogTest, NoRenewalAnswered_IsLostWhenItsTimeIsOver) {
  const LockLease lease = Must(service_->Acquire("a"));
  world_->on_renewal = [](const LockRenewal&) { return Fault::kReplyLost; };
  std::atomic<bool> lost = false;
  const std::stop_callback on_lost(lease.lost(), [&lost] {
    lost = true;
    lost.notify_all();
  });
  const absl::Duration valid_for = lease.remaining();
  absl::Duration passed = kWatchdogLease / 3;
  AdvanceToRenewal(passed, 1);
  for (int i = 2; passed + kWatchdogLease / 20 < valid_for; ++i) {
    passed += kWatchdogLease / 20;
    AdvanceToRenewal(kWatchdogLease / 20, i);
    EXPECT_FALSE(lost);
  }
  clock_.AwaitWaiters(1);
  clock_.Advance(valid_for - passed);
  lost.wait(false);
  EXPECT_FALSE(lease.valid());
  EXPECT_GT(world_->renewals, 5);
}

TEST_F(WatchdogTest, RenewalDelay_IsCountedFromWhenItWasDue) {
  const std::string series = "stockade_lock_service_renewal_delay_seconds_%{service=\"default\",engine=\"flaky\"}";
  const auto exported = [&](const std::string& part) {
    std::string name = series;
    return testing::Exported(registry_, name.replace(name.find('%'), 1, part));
  };
  const LockLease lease = Must(service_->Acquire("a"));
  AdvanceToRenewal(kWatchdogLease / 3, 1);
  AdvanceToRenewal(kWatchdogLease / 3 + absl::Seconds(2), 2);
  clock_.AwaitWaiters(1);
  EXPECT_EQ(exported("count"), 2);
  EXPECT_EQ(exported("sum"), 2) << "the first was in time";
}

TEST_F(WatchdogTest, ManyDue_AreRenewedTogether) {
  std::vector<LockLease> leases;
  for (int i = 0; i < 300; ++i) leases.push_back(Must(service_->Acquire("lock " + std::to_string(i))));
  AdvanceToRenewal(kWatchdogLease / 3, 300);
  clock_.AwaitWaiters(1);
  for (const LockLease& lease : leases) EXPECT_TRUE(lease.valid());
}

}  // namespace
}  // namespace stockade
