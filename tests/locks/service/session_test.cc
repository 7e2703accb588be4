// Engines whose holds end with a session, besides their leases.
#include <atomic>

#include "locks/service/service_fixture.h"

namespace stockade {
namespace {

using testing::ServiceTest;

constexpr absl::Duration kSession = absl::Seconds(5);

class SessionTest : public ServiceTest {
 protected:
  SessionTest() { world_->session = session_; }

  const std::shared_ptr<LockSession> session_ = std::make_shared<LockSession>(clock_.Now() + kSession);
};

TEST_F(SessionTest, Over_IsInvalidThoughItsLeaseIsNot) {
  LockLease lease = Must(service_->Acquire("a", {.lease = absl::Hours(1)}));
  EXPECT_EQ(lease.remaining(), kSession);
  clock_.Advance(kSession - absl::Nanoseconds(1));
  EXPECT_TRUE(lease.valid());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_FALSE(lease.valid());
  EXPECT_TRUE(absl::IsFailedPrecondition(lease.Release()));
  EXPECT_EQ(world_->releases, 0);
}

TEST_F(SessionTest, LeaseOverFirst_IsInvalid) {
  const LockLease lease = Must(service_->Acquire("a", {.lease = absl::Seconds(1)}));
  EXPECT_LT(lease.remaining(), absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(lease.valid());
}

// A watched hold is looked at each third of its lease only, ten seconds here.
TEST_F(SessionTest, Over_WatchedLeaseIsToldByTheClockAlone) {
  const LockLease lease = Must(service_->Acquire("a"));
  std::atomic<bool> lost = false;
  const std::stop_callback on_lost(lease.lost(), [&lost] {
    lost = true;
    lost.notify_all();
  });
  clock_.AwaitWaiters(2);  // The watchdog, and the timer of its session.
  clock_.Advance(kSession);
  lost.wait(false);
  EXPECT_EQ(world_->renewals, 0);
}

TEST_F(SessionTest, Extended_IsToldAtItsNewEnd) {
  const LockLease lease = Must(service_->Acquire("a", {.lease = absl::Hours(1)}));
  std::atomic<bool> lost = false;
  const std::stop_callback on_lost(lease.lost(), [&lost] {
    lost = true;
    lost.notify_all();
  });
  for (int i = 0; i < 10; ++i) {
    clock_.AwaitWaiters(1);
    clock_.Advance(kSession - absl::Nanoseconds(1));
    ASSERT_TRUE(session_->Extend(clock_.Now() + kSession + absl::Nanoseconds(1), clock_.Now()));
    clock_.Advance(absl::Nanoseconds(1));  // Its timer goes off, and finds it extended.
    EXPECT_TRUE(lease.valid());
  }
  EXPECT_FALSE(lost);
  clock_.AwaitWaiters(1);
  clock_.Advance(kSession);
  lost.wait(false);
}

TEST_F(SessionTest, PassedOnce_IsOverForGood) {
  const LockLease lease = Must(service_->Acquire("a"));
  clock_.Advance(kSession);
  EXPECT_FALSE(session_->Extend(clock_.Now() + kSession, clock_.Now()));
  EXPECT_FALSE(lease.valid());
}

TEST_F(SessionTest, ExtendedByLess_KeepsItsEnd) {
  EXPECT_TRUE(session_->Extend(clock_.Now() + kSession / 2, clock_.Now()));
  EXPECT_EQ(session_->ValidUntil(), clock_.Now() + kSession);
}

TEST_F(SessionTest, Ended_IsLostAtTheFirstLook) {
  const LockLease lease = Must(service_->Acquire("a"));
  session_->End();
  EXPECT_FALSE(lease.valid());
}

TEST_F(SessionTest, ReenteredInAnotherSession_TheOuterLeaseIsLost) {
  LockLease outer = Must(service_->Acquire("a"));
  world_->session = std::make_shared<LockSession>(clock_.Now() + kSession);
  LockLease inner = Must(service_->Acquire("a"));
  EXPECT_FALSE(outer.valid());
  EXPECT_TRUE(absl::IsFailedPrecondition(outer.Release()));
  EXPECT_TRUE(inner.valid());
  EXPECT_EQ(inner.hold_count(), 1);
}

TEST_F(SessionTest, OverWhenItIsAnswered_IsUnavailableAndReleased) {
  clock_.Advance(kSession);
  const absl::StatusOr<LockLease> lease = service_->Acquire("a");
  EXPECT_TRUE(absl::IsUnavailable(lease.status())) << lease.status();
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 0);
}

}  // namespace
}  // namespace stockade
