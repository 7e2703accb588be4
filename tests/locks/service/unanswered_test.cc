// Steps whose outcome is not known: sent again under their number, or taken back.
#include <atomic>
#include <thread>
#include <vector>

#include "locks/service/service_fixture.h"

namespace stockade {
namespace {

using testing::Fault;
using testing::ServiceTest;

class UnansweredTest : public ServiceTest {
 protected:
  // The engine's time-out is not to pass, even if a thread is late while Finish() advances the clock.
  void BePatient() { service_ = NewService(absl::Minutes(10)); }
};

TEST_F(UnansweredTest, ReplyOfTheTryLost_IsHeldOnce) {
  BePatient();
  for (const Fault fault : {Fault::kReplyLost, Fault::kRequestLost, Fault::kRefused}) {
    std::atomic<int> faults = 3;
    world_->on_try = [&faults, fault](const LockTry&) { return faults-- > 0 ? fault : Fault::kNone; };
    const LockOwner owner = LockOwner::New();
    LockLease lease = Must(Finish(AcquireInThread("a", {.owner = owner})));
    EXPECT_EQ(lease.hold_count(), 1);
    EXPECT_EQ(HoldsOf("a", owner), 1);
    EXPECT_TRUE(lease.Release().ok());
    EXPECT_EQ(HoldsOf("a", owner), 0);
  }
}

// The engine counts the lease from when it ran the try, not from when it was asked again.
TEST_F(UnansweredTest, ReplyOfTheTryLost_LeaseIsCountedFromTheFirstTry) {
  BePatient();
  constexpr absl::Duration kLease = absl::Minutes(1);
  int tries = 0;
  Instant run;
  world_->on_try = [&, this](const LockTry&) {
    if (++tries == 1) run = clock_.Now();
    return tries <= 3 ? Fault::kReplyLost : Fault::kNone;
  };
  const LockLease lease = Must(Finish(AcquireInThread("a", {.lease = kLease})));
  EXPECT_GE(clock_.Now() - run, absl::Milliseconds(20));
  EXPECT_LT(clock_.Now() + lease.remaining(), run + kLease);
}

TEST_F(UnansweredTest, AnsweredAfterTheLeaseOfTheFirstTry_IsTriedAnew) {
  constexpr absl::Duration kLease = absl::Seconds(10);
  BePatient();
  int tries = 0;
  world_->on_try = [&, this](const LockTry&) {
    if (++tries == 1) clock_.Advance(1.5 * kLease);
    return tries <= 3 ? Fault::kRequestLost : Fault::kNone;
  };
  const LockOwner owner = LockOwner::New();
  LockLease lease = Must(Finish(AcquireInThread("a", {.lease = kLease, .owner = owner})));
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(HoldsOf("a", owner), 1);
  EXPECT_TRUE(lease.Release().ok());
}

TEST_F(UnansweredTest, ReplyOfTheReleaseLost_IsReleasedOnce) {
  BePatient();
  std::atomic<int> faults = 3;  // Before the leases: their releases ask it.
  const LockLease outer = Must(service_->Acquire("a"));
  LockLease inner = Must(service_->Acquire("a"));
  world_->on_release = [&faults](const LockRelease&) { return faults-- > 0 ? Fault::kReplyLost : Fault::kNone; };
  EXPECT_TRUE(Finish(std::async(std::launch::async, [&inner] { return inner.Release(); })).ok());
  EXPECT_TRUE(outer.valid());
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
}

TEST_F(UnansweredTest, EngineAway_IsUnavailableAfterItsTimeOut) {
  world_->on_try = [](const LockTry&) { return Fault::kRefused; };
  const Instant began = clock_.Now();
  const absl::Status status = Finish(AcquireInThread("a", {.wait = absl::ZeroDuration()})).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_GE(clock_.Now() - began, absl::Seconds(3));
}

TEST_F(UnansweredTest, NeverAnswered_IsTakenBack) {
  std::atomic<bool> away = true;
  world_->on_try = [&away](const LockTry&) { return away ? Fault::kReplyLost : Fault::kNone; };
  world_->on_release = [&away](const LockRelease&) { return away ? Fault::kRequestLost : Fault::kNone; };
  const LockOwner owner = LockOwner::New();
  EXPECT_TRUE(absl::IsUnavailable(Finish(AcquireInThread("a", {.owner = owner})).status()));
  EXPECT_EQ(HoldsOf("a", owner), 1) << "the engine has run it";
  away = false;
  while (HoldsOf("a", owner) != 0) {
    clock_.Advance(absl::Milliseconds(20));
    ASSERT_EQ(world_->renewals, 0) << "it is never renewed";
  }
}

TEST_F(UnansweredTest, NeverTakenBack_LapsesWithinALease) {
  world_->on_try = [](const LockTry&) { return Fault::kReplyLost; };
  world_->on_release = [](const LockRelease&) { return Fault::kRefused; };
  const LockOwner owner = LockOwner::New();
  EXPECT_FALSE(Finish(AcquireInThread("a", {.owner = owner})).ok());
  for (absl::Duration passed; passed < kWatchdogLease; passed += absl::Seconds(1)) clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(HoldsOf("a", owner), 0);
  EXPECT_EQ(world_->renewals, 0);
}

// The request that was lost may come yet, when the lock is free.
TEST_F(UnansweredTest, BusyWhenAskedAgain_TheFirstRequestIsRefusedWhenItComes) {
  BePatient();
  LockLease other = Must(service_->Acquire("a"));
  std::vector<LockTry> tries;
  world_->on_try = [&tries](const LockTry& one) {
    tries.push_back(one);
    return tries.size() == 1 ? Fault::kRequestLost : Fault::kNone;
  };
  const LockOwner owner = LockOwner::New();
  const absl::Status busy = Finish(AcquireInThread("a", {.wait = absl::ZeroDuration(), .owner = owner})).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(busy)) << busy;
  EXPECT_TRUE(other.Release().ok());
  ASSERT_EQ(tries.size(), 2u);
  world_->engine.TryMany({&tries[0], 1});
  EXPECT_TRUE(absl::IsAborted(tries[0].status)) << tries[0].status;
  EXPECT_EQ(HoldsOf("a", owner), 0);
}

// By `repeated` engines know that they have to remember the steps of what has ended.
TEST_F(UnansweredTest, TakenBack_ReleasesRefuseItsRequestsForAsLongAsTheyMayCome) {
  std::atomic<bool> away = true;
  std::atomic<bool> taken_back = false;
  std::vector<bool> repeated;
  world_->on_try = [&away](const LockTry&) { return away ? Fault::kRequestLost : Fault::kNone; };
  world_->on_release = [&](const LockRelease& release) {
    if (release.gives_up) {
      taken_back = true;
    } else {
      repeated.push_back(release.repeated);
    }
    return Fault::kNone;
  };
  const LockOwner owner = LockOwner::New();
  EXPECT_FALSE(Finish(AcquireInThread("a", {.owner = owner})).ok());
  while (!taken_back) std::this_thread::yield();
  away = false;
  EXPECT_TRUE(Must(service_->Acquire("a", {.owner = owner})).Release().ok());
  EXPECT_EQ(repeated, std::vector({true}));
}

// What the engine counts too much is not left behind by the release.
TEST_F(UnansweredTest, OrphanOfTheSameOwner_GoesWithTheRelease) {
  world_->on_release = [](const LockRelease& release) { return release.gives_up ? Fault::kRefused : Fault::kNone; };
  std::atomic<bool> away = true;
  world_->on_try = [&away](const LockTry&) { return away ? Fault::kReplyLost : Fault::kNone; };
  const LockOwner owner = LockOwner::New();
  EXPECT_FALSE(Finish(AcquireInThread("a", {.owner = owner})).ok());
  away = false;
  LockLease lease = Must(service_->Acquire("a", {.owner = owner}));
  EXPECT_EQ(HoldsOf("a", owner), 2);
  EXPECT_EQ(lease.hold_count(), 1);
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_EQ(HoldsOf("a", owner), 0);
}

TEST_F(UnansweredTest, ReleaseNeverAnswered_IsUnavailableAndNotRenewed) {
  LockLease lease = Must(service_->Acquire("a"));
  world_->on_release = [](const LockRelease&) { return Fault::kRequestLost; };
  EXPECT_TRUE(absl::IsUnavailable(Finish(std::async(std::launch::async, [&lease] { return lease.Release(); }))));
  EXPECT_FALSE(lease.valid());
  clock_.Advance(kWatchdogLease);
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 0);
  EXPECT_EQ(world_->renewals, 0);
}

}  // namespace
}  // namespace stockade
