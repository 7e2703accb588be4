// Case 13: holds are counted, seen, taken away, and lapse.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "stockade/base/strings.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::IsFree;
using testing::kPatience;
using testing::kSlack;
using testing::LostSignal;
using testing::MustAcquire;
using testing::MustInspect;
using testing::NewOwner;
using testing::Stopwatch;

class StateSuiteTest : public testing::LockSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, StateSuiteTest, ::testing::ValuesIn(testing::LockSetups()), testing::LockSetupName);

// With fair locks beside read-write locks.
class FairStateSuiteTest : public StateSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, FairStateSuiteTest, ::testing::ValuesIn(testing::WithFair(testing::LockSetups())),
                         testing::LockSetupName);

TEST_P(StateSuiteTest, Reenter_ThreeTimes_OthersEnterAfterTheLastRelease) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    std::vector<LockLease> leases;
    for (int64_t count = 1; count <= 3; ++count) {
      leases.push_back(MustAcquire(*mine, name, {.kind = kind}));
      EXPECT_EQ(leases.back().hold_count(), count) << LockKindName(kind);
      EXPECT_EQ(MustInspect(*mine, name).owner_holds, count) << LockKindName(kind);
    }
    while (!leases.empty()) {
      EXPECT_FALSE(IsFree(*others, name, kind)) << LockKindName(kind);
      EXPECT_TRUE(leases.back().valid());
      const absl::Status released = leases.back().Release();
      EXPECT_TRUE(released.ok()) << LockKindName(kind) << ": " << released;
      leases.pop_back();
    }
    // At ZooKeeper, the nodes of the tries before may still be there, because a call does not wait for their deletion.
    testing::Await("others to enter", [&] { return IsFree(*others, name, kind); });
  }
}

TEST_P(StateSuiteTest, Inspect_HeldAndReleased_TellsWhoAndHowLong) {
  const auto locks = NewClient();
  for (const LockKind kind : Kinds()) {
    const std::string name = NewName();
    const LockOwner owner = LockOwner::New();
    EXPECT_FALSE(MustInspect(*locks, name, owner).locked) << LockKindName(kind);
    LockLease lease = MustAcquire(*locks, name, {.kind = kind, .lease = absl::Seconds(60), .owner = owner});
    const LockState held = MustInspect(*locks, name, owner);
    EXPECT_TRUE(held.locked) << LockKindName(kind);
    EXPECT_EQ(held.kind, kind) << LockKindName(kind) << ", not " << LockKindName(held.kind);
    EXPECT_EQ(held.owner_holds, 1) << LockKindName(kind);
    EXPECT_GT(held.remaining, absl::Seconds(20)) << LockKindName(kind);
    EXPECT_LE(held.remaining, absl::Seconds(60)) << LockKindName(kind);
    EXPECT_EQ(MustInspect(*locks, name, LockOwner::New()).owner_holds, 0) << LockKindName(kind);
    EXPECT_TRUE(lease.Release().ok());
    const LockState released = MustInspect(*locks, name, owner);
    EXPECT_FALSE(released.locked) << LockKindName(kind);
    EXPECT_EQ(released.owner_holds, 0) << LockKindName(kind);
    EXPECT_EQ(released.remaining, absl::ZeroDuration()) << LockKindName(kind);
  }
}

TEST_P(StateSuiteTest, ForceRelease_Held_TheHolderLearnsItAndDisturbsNobody) {
  const auto mine = NewClient(testing::kKeptLease);
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    LockLease lease = MustAcquire(*mine, name, {.kind = kind});
    LostSignal lost(lease.lost());
    // A busy machine may let it lapse before. If it freed nothing, `next` would be kept out.
    ASSERT_TRUE(others->ForceRelease(name).ok());
    const LockLease next = MustAcquire(*others, name, {.kind = kind});
    EXPECT_TRUE(lost.Await()) << LockKindName(kind);
    EXPECT_FALSE(lease.valid());
    EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(next.valid());
    EXPECT_EQ(MustInspect(*others, name).owner_holds, 1) << LockKindName(kind);
  }
}

TEST_P(StateSuiteTest, ForceRelease_NobodyHolds_IsNone) {
  const auto locks = NewClient();
  const absl::StatusOr<std::optional<LockKind>> freed = locks->ForceRelease(NewName());
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, std::nullopt);
}

TEST_P(StateSuiteTest, ForceRelease_SomebodyWaits_WakesTheWaiter) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  const LockLease lease = MustAcquire(*mine, name);
  std::future<LockLease> waiter =
      std::async(std::launch::async, [&] { return MustAcquire(*others, name, {.wait = kPatience}); });
  EXPECT_TRUE(mine->ForceRelease(name).value());
  EXPECT_TRUE(waiter.get().valid());  // The lease that it waited for is twice as long as its patience.
}

// Case 16. The holder has had no renewal by which it could have learnt it.
TEST_P(StateSuiteTest, Release_AnotherHoldsByNow_IsRefusedAndChangesNothing) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    LockLease lease = MustAcquire(*mine, name, {.kind = kind});
    const absl::StatusOr<std::optional<LockKind>> freed = others->ForceRelease(name);
    ASSERT_TRUE(freed.ok()) << freed.status();
    EXPECT_EQ(*freed, kind) << LockKindName(kind);
    const LockLease next = MustAcquire(*others, name, {.kind = kind});
    const absl::Status refused = lease.Release();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << LockKindName(kind) << ": " << refused;
    EXPECT_EQ(MustInspect(*others, name).owner_holds, 1) << LockKindName(kind);
    EXPECT_FALSE(IsFree(*mine, name, kind)) << LockKindName(kind);
  }
}

TEST_P(StateSuiteTest, Release_InnerAfterAForceRelease_IsRefused) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind kind : Kinds()) {
    const std::string name = NewName();
    LockLease outer = MustAcquire(*mine, name, {.kind = kind});
    LockLease inner = MustAcquire(*mine, name, {.kind = kind});
    ASSERT_TRUE(others->ForceRelease(name).ok());
    const absl::Status refused = inner.Release();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << LockKindName(kind) << ": " << refused;
    EXPECT_FALSE(outer.valid()) << LockKindName(kind);
    EXPECT_EQ(outer.Release().code(), absl::StatusCode::kFailedPrecondition) << LockKindName(kind);
    EXPECT_TRUE(IsFree(*others, name, kind)) << LockKindName(kind);
  }
}

TEST_P(StateSuiteTest, Release_Twice_IsRefusedTheSecondTime) {
  const auto locks = NewClient();
  LockLease lease = MustAcquire(*locks, NewName());
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(StateSuiteTest, Destructor_Held_Releases) {
  const auto locks = NewClient();
  for (const LockKind kind : Kinds()) {
    const std::string name = NewName();
    { const LockLease lease = MustAcquire(*locks, name, {.kind = kind}); }
    EXPECT_FALSE(MustInspect(*locks, name).locked) << LockKindName(kind);
  }
}

TEST_P(StateSuiteTest, Wait_IsOver_DeadlineExceededNotBefore) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    const LockLease lease = MustAcquire(*mine, name, {.kind = kind});
    for (const absl::Duration wait : {absl::ZeroDuration(), absl::Milliseconds(300)}) {
      const Stopwatch watch;
      const absl::StatusOr<LockLease> refused = others->Acquire(name, {.kind = kind, .wait = wait});
      EXPECT_EQ(refused.status().code(), absl::StatusCode::kDeadlineExceeded) << refused.status();
      EXPECT_GE(watch.elapsed(), wait) << LockKindName(kind);
      EXPECT_LT(watch.elapsed(), wait + kSlack) << LockKindName(kind);
    }
  }
}

TEST_P(StateSuiteTest, Lease_WithoutWatchdog_IsInvalidBeforeAnotherHasIt) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    LockLease lease = MustAcquire(*mine, name, {.kind = kind, .lease = absl::Milliseconds(500)});
    LostSignal lost(lease.lost());
    const LockLease next = MustAcquire(*others, name, {.kind = kind});
    EXPECT_FALSE(lease.valid()) << LockKindName(kind);
    EXPECT_EQ(lease.remaining(), absl::ZeroDuration());
    EXPECT_TRUE(lost.Await()) << LockKindName(kind);
    EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(MustInspect(*others, name).owner_holds, 1) << LockKindName(kind);
  }
}

TEST_P(StateSuiteTest, Reenter_ShorterLease_DoesNotShortenTheOuter) {
  const auto locks = NewClient();
  for (const LockKind kind : Kinds()) {
    const std::string name = NewName();
    const LockLease outer = MustAcquire(*locks, name, {.kind = kind, .lease = absl::Seconds(60)});
    LockLease inner = MustAcquire(*locks, name, {.kind = kind, .lease = absl::Milliseconds(300)});
    EXPECT_GT(outer.remaining(), absl::Seconds(20)) << LockKindName(kind);
    EXPECT_GT(MustInspect(*locks, name).remaining, absl::Seconds(20)) << LockKindName(kind);
    EXPECT_TRUE(inner.Release().ok());
    EXPECT_GT(outer.remaining(), absl::Seconds(20)) << LockKindName(kind);
    EXPECT_GT(MustInspect(*locks, name).remaining, absl::Seconds(20)) << LockKindName(kind);
  }
}

TEST_P(StateSuiteTest, Owner_AnotherThreadOfTheProcess_IsKeptOut) {
  const auto locks = NewClient();
  const std::string name = NewName();
  const LockLease lease = MustAcquire(*locks, name);
  std::thread([&] {
    EXPECT_EQ(locks->Acquire(name, {.wait = absl::ZeroDuration()}).status().code(),
              absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(MustAcquire(*locks, name, {.wait = absl::ZeroDuration(), .owner = lease.owner()}).hold_count(), 2);
  }).join();
}

TEST_P(StateSuiteTest, Acquire_BadName_IsInvalidArgument) {
  const auto locks = NewClient();
  EXPECT_EQ(locks->Acquire("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(locks->Acquire(std::string(kMaxLockNameBytes + 1, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(StateSuiteTest, Acquire_NameOfAnyBytes_IsALockOfItsOwn) {
  const auto locks = NewClient();
  const std::string base = NewName();
  for (const LockKind kind : Kinds()) {
    std::vector<LockLease> leases;
    for (const std::string& odd :
         {std::string("\0\xff\r\n", 4), std::string("\0\xff\r", 3), std::string("a{b}c"), std::string(":x:")}) {
      const std::string name = base_internal::Concat(LockKindName(kind), base, odd);
      leases.push_back(MustAcquire(*locks, name, NewOwner({.kind = kind, .wait = absl::ZeroDuration()})));
      EXPECT_EQ(leases.back().name(), name);
    }
    for (LockLease& lease : leases) EXPECT_TRUE(lease.Release().ok());
  }
}

// Redisson's names for the keys of such a lock are in several slots.
TEST_P(StateSuiteTest, Acquire_NameWithABraceThatHasNoOther_IsRefusedOnAClusterOnly) {
  const auto locks = NewClient();
  for (const LockKind kind : Kinds()) {
    for (const char* const odd : {"{", "}", "{}", "}{"}) {
      const absl::StatusOr<LockLease> lease = locks->Acquire(NewName() + odd, {.kind = kind, .wait = kPatience});
      const auto expected =
          GetParam() == testing::LockSetup::kCluster ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk;
      EXPECT_EQ(lease.status().code(), expected) << LockKindName(kind) << odd << ": " << lease.status();
    }
  }
}

TEST_P(StateSuiteTest, AcquireAsync_Several_EachBelongsToSomebodyNewAndComesInTurn) {
  const auto locks = NewClient();
  const std::string name = NewName();
  constexpr size_t kCalls = 8;
  std::vector<std::promise<absl::StatusOr<LockLease>>> results(kCalls);
  for (auto& result : results) {
    locks->AcquireAsync(name, {.wait = kPatience},
                        [&](absl::StatusOr<LockLease> lease) { result.set_value(std::move(lease)); });
  }
  std::vector<std::future<absl::StatusOr<LockLease>>> waiting;
  for (auto& result : results) waiting.push_back(result.get_future());
  for (size_t entered = 0; entered < kCalls; ++entered) {
    const Stopwatch watch;
    auto held = waiting.end();
    while (held == waiting.end() && watch.elapsed() < kPatience) {
      held = std::find_if(waiting.begin(), waiting.end(), [](const auto& result) {
        return result.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
      });
    }
    ASSERT_NE(held, waiting.end()) << entered << " of " << kCalls << " have entered";
    absl::StatusOr<LockLease> lease = held->get();
    waiting.erase(held);
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(lease->hold_count(), 1);
    for (const auto& other : waiting) {
      EXPECT_EQ(other.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    }
    EXPECT_TRUE(lease->Release().ok());
  }
}

// On Redis the owner's steps of all kinds have one record, which also says that a hold is fair.
TEST_P(FairStateSuiteTest, Release_OfAReadThatWasTaken_LeavesTheFairHoldAsItIs) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease read = MustAcquire(*mine, name, {.kind = LockKind::kRead});
  ASSERT_TRUE(others->ForceRelease(name).ok());
  const LockLease fair = MustAcquire(*mine, name, {.kind = LockKind::kFair});
  EXPECT_EQ(read.Release().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(MustInspect(*others, name).kind, LockKind::kFair);
  EXPECT_EQ(others->Acquire(name, {.wait = absl::ZeroDuration()}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const absl::StatusOr<std::optional<LockKind>> freed = others->ForceRelease(name);
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, LockKind::kFair);
}

}  // namespace
}  // namespace stockade
