// What one lease is: held, entered again, released, of nothing.
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "locks/service/service_fixture.h"
#include "support/await.h"
#include "support/forked_child.h"

namespace stockade {
namespace {

using testing::Await;
using testing::Fault;
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

TEST_F(LeaseTest, MovedToAnotherThread_AfterAnInnerLeaseHasEnded_IsReleasedThere) {
  LockLease moved = Must(service_->Acquire("a"));
  { const LockLease inner = Must(service_->Acquire("a")); }
  std::thread([lease = std::move(moved)]() mutable { EXPECT_TRUE(lease.Release().ok()); }).join();
}

TEST_F(LeaseTest, Destroyed_IsReleased) {
  { const LockLease lease = Must(service_->Acquire("a")); }
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 0);
}

TEST_F(LeaseTest, Destroyed_EngineDoesNotAnswer_OneWaitsTheOthersAreReleasedInTheBackground) {
  std::vector<LockLease> leases;
  for (const char* const name : {"a", "b", "c", "d"}) leases.push_back(Must(service_->Acquire(name)));
  std::atomic<bool> away = true;
  std::set<std::string> waited_for;  // Under the engine's mutex.
  world_->on_release = [&](const LockRelease& release) {
    if (!release.gives_up) waited_for.insert(release.hold.name);
    return away ? Fault::kRequestLost : Fault::kNone;
  };
  Finish(std::async(std::launch::async, [&] { leases.clear(); }));
  EXPECT_TRUE(service_->Inspect("d")->locked);
  away = false;
  Finish(std::async(std::launch::async, [this] {
    for (const char* const name : {"a", "b", "c", "d"}) {
      Await("the release", [&] { return !service_->Inspect(name)->locked; });
    }
  }));
  EXPECT_EQ(waited_for.size(), 1);
}

TEST_F(LeaseTest, Release_AnotherCallOfTheOwnerHangs_IsUnavailableWithinTheEngineTimeoutAndTriedLater) {
  std::latch answer(1);
  const LockOwner owner = LockOwner::New();
  std::vector<LockLease> leases;
  for (int i = 0; i < 3; ++i) leases.push_back(Must(service_->Acquire("a", {.owner = owner})));
  AnswerTriesAfter(answer);
  auto hangs = AcquireInThread("a", {.owner = owner});
  AwaitTries(4);
  const absl::Status released = Finish(std::async(std::launch::async, [&] { return leases[0].Release(); }));
  EXPECT_TRUE(absl::IsUnavailable(released)) << released;
  EXPECT_FALSE(leases[0].valid());
  EXPECT_EQ(leases[1].hold_count(), 2);
  Finish(std::async(std::launch::async, [&] { leases.clear(); }));
  answer.count_down();
  const absl::StatusOr<LockLease> entered = Finish(std::move(hangs));
  if (entered.ok()) {
    EXPECT_EQ(entered->hold_count(), 1);
  }
  Finish(std::async(std::launch::async,
                    [&] { Await("the releases", [&] { return HoldsOf("a", owner) == (entered.ok() ? 1 : 0); }); }));
}

TEST_F(LeaseTest, ReleaseAll_LeasesOfAllKinds_AreLostAndFree) {
  std::vector<LockLease> leases;
  leases.push_back(Must(service_->Acquire("a")));
  leases.push_back(Must(service_->Acquire("a")));
  leases.push_back(Must(service_->Acquire("b", {.kind = LockKind::kFair})));
  leases.push_back(Must(service_->Acquire("c", {.kind = LockKind::kWrite})));
  leases.push_back(Must(service_->Acquire("c", {.kind = LockKind::kRead})));
  int lost = 0;
  const std::stop_callback on_lost(leases[0].lost(), [&lost] { ++lost; });
  EXPECT_TRUE(service_->ReleaseAll(absl::Seconds(1)).ok());
  EXPECT_EQ(lost, 1);
  for (LockLease& lease : leases) {
    EXPECT_FALSE(lease.valid());
    EXPECT_FALSE(service_->Inspect(lease.name())->locked) << lease.name();
    const absl::Status released = lease.Release();
    EXPECT_TRUE(absl::IsFailedPrecondition(released)) << released;
    EXPECT_NE(released.message().find("its service released all leases"), std::string::npos) << released;
  }
  EXPECT_TRUE(service_->ReleaseAll(absl::ZeroDuration()).ok());
}

TEST_F(LeaseTest, ReleaseAll_EngineDoesNotAnswer_IsUnavailableAndAllAreLost) {
  const LockLease one = Must(service_->Acquire("a"));
  const LockLease other = Must(service_->Acquire("b"));
  world_->on_release = [](const LockRelease&) { return Fault::kRequestLost; };
  const absl::Status released =
      Finish(std::async(std::launch::async, [this] { return service_->ReleaseAll(absl::Seconds(1)); }));
  EXPECT_TRUE(absl::IsUnavailable(released)) << released;
  EXPECT_NE(released.message().find("2 locks may not be released"), std::string::npos) << released;
  EXPECT_FALSE(one.valid());
  EXPECT_FALSE(other.valid());
}

TEST_F(LeaseTest, RequireGrowingToken_EngineDoesNotPromiseIt_IsRefused) {
  const absl::Status refused = service_->Acquire("a", {.require_growing_token = true}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_EQ(world_->tries, 0);
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
  EXPECT_EQ(service_->Acquire("").status().message(), "the name of a lock must have 1 to 4096 bytes, not 0");
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Acquire(std::string(4097, 'x')).status()));
  EXPECT_EQ(service_->Acquire("a", {.lease = absl::Milliseconds(9)}).status().message(),
            "lease must be 0 or from 10ms to 8760h, not 9ms");
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
