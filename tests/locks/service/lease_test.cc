// What one lease is: held, entered again, released, of nothing.
#include "locks/service/service_fixture.h"
#include "support/forked_child.h"

namespace stockade {
namespace {

using testing::InForkedChild;
using testing::ServiceTest;

class LeaseTest : public ServiceTest {};

TEST_F(LeaseTest, Acquired_IsHeldUntilItsRelease) {
  LockLease lease = Must(service_->Acquire("a"));
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(lease.name(), "a");
  EXPECT_EQ(lease.kind(), LockKind::kReentrant);
  EXPECT_EQ(lease.owner(), LockOwner::ThisThread());
  EXPECT_EQ(lease.hold_count(), 1);
  EXPECT_FALSE(lease.degraded());
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      service_->Acquire("a", {.wait = absl::ZeroDuration(), .owner = LockOwner::New()}).status()));
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lease.hold_count(), 0);
  EXPECT_TRUE(service_->Acquire("a", {.wait = absl::ZeroDuration(), .owner = LockOwner::New()}).ok());
}

TEST_F(LeaseTest, ReenteredTwice_OthersGetInAfterTheLastRelease) {
  LockLease first = Must(service_->Acquire("a"));
  LockLease second = Must(service_->Acquire("a"));
  EXPECT_EQ(second.hold_count(), 2);
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 2);
  EXPECT_GT(*second.fencing_token(), *first.fencing_token());

  EXPECT_TRUE(first.Release().ok());
  EXPECT_TRUE(second.valid());
  EXPECT_FALSE(service_->Acquire("a", {.wait = absl::ZeroDuration(), .owner = LockOwner::New()}).ok());
  EXPECT_TRUE(second.Release().ok());
  EXPECT_TRUE(service_->Acquire("a", {.wait = absl::ZeroDuration(), .owner = LockOwner::New()}).ok());
}

TEST_F(LeaseTest, ReleasedTwice_SaysSoAndDisturbsNobody) {
  LockLease lease = Must(service_->Acquire("a"));
  ASSERT_TRUE(lease.Release().ok());
  const LockLease other = Must(service_->Acquire("a"));  // By the same owner.
  EXPECT_TRUE(absl::IsFailedPrecondition(lease.Release()));
  EXPECT_TRUE(other.valid());
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
}

using LeaseDeathTest = LeaseTest;

TEST_F(LeaseDeathTest, MovedToAnotherThread_ItsThreadHasAcquiredAgain_ReleaseAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto both_inside = [this] {
    LockLease moved = Must(service_->Acquire("a"));
    const LockLease again = Must(service_->Acquire("a"));
    std::thread([lease = std::move(moved)]() mutable { (void)lease.Release(); }).join();
  };
  EXPECT_DEATH(both_inside(), "lock 'a': a lease without AcquireOptions::owner is released by another thread");
}

TEST_F(LeaseTest, MovedToAnotherThread_NobodyHasEnteredAgainOrItHasAnOwner_IsReleasedThere) {
  const auto release_elsewhere = [](LockLease lease) {
    std::thread([lease = std::move(lease)]() mutable { EXPECT_TRUE(lease.Release().ok()); }).join();
  };
  release_elsewhere(Must(service_->Acquire("a")));
  const LockOwner owner = LockOwner::New();
  LockLease moved = Must(service_->Acquire("a", {.owner = owner}));
  const LockLease again = Must(service_->Acquire("a", {.owner = owner}));
  release_elsewhere(std::move(moved));
  EXPECT_EQ(HoldsOf("a", owner), 1);
}

TEST_F(LeaseTest, Destroyed_IsReleased) {
  { const LockLease lease = Must(service_->Acquire("a")); }
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 0);
}

TEST_F(LeaseTest, MoveAssigned_ReleasesWhatItHeld) {
  LockLease lease = Must(service_->Acquire("a"));
  lease = Must(service_->Acquire("b"));
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 0);
  EXPECT_EQ(lease.name(), "b");
  EXPECT_TRUE(lease.valid());
}

TEST_F(LeaseTest, OfNothing_IsNotValidAndSaysSo) {
  LockLease lease;
  EXPECT_FALSE(lease.valid());
  EXPECT_FALSE(lease.lost().stop_possible());
  EXPECT_TRUE(absl::IsFailedPrecondition(lease.fencing_token().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(lease.Release()));
  EXPECT_EQ(lease.remaining(), absl::ZeroDuration());
}

TEST_F(LeaseTest, ServiceDestroyed_LeaseIsLost) {
  LockLease lease = Must(service_->Acquire("a"));
  int lost = 0;
  const std::stop_callback on_lost(lease.lost(), [&lost] { ++lost; });
  service_.reset();
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lost, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(lease.Release()));
}

TEST_F(LeaseTest, InAForkedChild_CallsAbortAndDestructorsDoNothing) {
  LockLease lease = Must(service_->Acquire("a"));
  EXPECT_TRUE(WIFSIGNALED(InForkedChild([&] { (void)lease.valid(); })));
  EXPECT_TRUE(WIFSIGNALED(InForkedChild([&] { (void)lease.Release(); })));
  EXPECT_TRUE(WIFSIGNALED(InForkedChild([&] { (void)service_->Acquire("b"); })));
  EXPECT_EQ(InForkedChild([&] {
              lease = LockLease();
              service_.reset();
            }),
            0);
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
  EXPECT_TRUE(lease.Release().ok());
}

TEST_F(LeaseTest, BadArguments_AreNamed) {
  EXPECT_EQ(service_->Acquire("").status().message(), "a lock's name has 1 to 4096 bytes, not 0");
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Acquire(std::string(4097, 'x')).status()));
  EXPECT_EQ(service_->Acquire("a", {.lease = absl::Milliseconds(9)}).status().message(),
            "lease is 0 or from 10ms to 8760h, not 9ms");
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Acquire("a", {.lease = -absl::Seconds(1)}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Acquire("a", {.lease = absl::InfiniteDuration()}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Acquire("a", {.owner = LockOwner(kNoOwner)}).status()));
  EXPECT_EQ(world_->tries, 0);
}

TEST_F(LeaseTest, WriteWhileItsOwnerReads_IsRefusedAtOnce) {
  LockLease read = Must(service_->Acquire("a", {.kind = LockKind::kRead}));
  EXPECT_TRUE(absl::IsFailedPrecondition(service_->Acquire("a", {.kind = LockKind::kWrite}).status()));
  ASSERT_TRUE(read.Release().ok());
  LockLease write = Must(service_->Acquire("a", {.kind = LockKind::kWrite}));
  read = Must(service_->Acquire("a", {.kind = LockKind::kRead}));  // To downgrade.
  const LockLease again = Must(service_->Acquire("a", {.kind = LockKind::kWrite}));
  EXPECT_EQ(again.hold_count(), 2);
}

}  // namespace
}  // namespace stockade
