// Case 14: the watchdog keeps a lock as long as its holder lives, and no longer.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "locks/distributed/support/lock_suite.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

using testing::AgentProcess;
using testing::IsFree;
using testing::kKeptLease;
using testing::kShortLease;
using testing::kSlack;
using testing::MustAcquire;
using testing::MustInspect;
using testing::Stopwatch;

class WatchdogSuiteTest : public testing::LockSuiteTest {};
class CrashSuiteTest : public testing::ServerLockSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, WatchdogSuiteTest, ::testing::ValuesIn(testing::LockSetups()), testing::LockSetupName);
INSTANTIATE_TEST_SUITE_P(Locks, CrashSuiteTest, ::testing::ValuesIn(testing::ServerSetups()), testing::LockSetupName);

TEST_P(WatchdogSuiteTest, Watchdog_TenLeases_KeepsEveryKind) {
  const auto mine = NewClient(kKeptLease);
  const auto others = NewClient();
  std::vector<LockLease> leases;
  for (const LockKind kind : Kinds()) {
    leases.push_back(MustAcquire(*mine, NewName(), {.kind = kind}));
  }
  const absl::StatusOr<LockLease> refused = others->Acquire(leases.front().name(), {.wait = 10 * kKeptLease});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDeadlineExceeded) << refused.status();
  for (LockLease& lease : leases) {
    EXPECT_TRUE(lease.valid()) << lease.name();
    EXPECT_EQ(MustInspect(*mine, std::string(lease.name())).owner_holds, 1) << lease.name();
    const absl::Status released = lease.Release();
    EXPECT_TRUE(released.ok()) << released;
  }
}

TEST_P(WatchdogSuiteTest, Watchdog_Reentered_KeepsItUntilTheLastWatchedLeaseEnds) {
  const auto mine = NewClient(2 * kKeptLease);
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease outer = MustAcquire(*mine, name);
  LockLease inner = MustAcquire(*mine, name);
  EXPECT_TRUE(inner.Release().ok());
  EXPECT_EQ(others->Acquire(name, {.wait = 3 * kKeptLease}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(outer.valid());
  EXPECT_TRUE(outer.Release().ok());
  EXPECT_TRUE(IsFree(*others, name, LockKind::kReentrant));
}

// A renewal may shorten a time to live, but not below another lease of the same owner.
TEST_P(WatchdogSuiteTest, Watchdog_OwnerAlsoHasALongerLease_DoesNotShortenIt) {
  const auto mine = NewClient(kKeptLease);
  const auto others = NewClient();
  for (const LockKind kind : Kinds()) {
    const std::string name = NewName();
    LockLease watched = MustAcquire(*mine, name, {.kind = kind});
    LockLease longer = MustAcquire(*mine, name, {.kind = kind, .lease = testing::kLongLease});
    const LockKind other_kind = kind == LockKind::kRead ? LockKind::kWrite : kind;
    EXPECT_EQ(others->Acquire(name, {.kind = other_kind, .wait = kKeptLease}).status().code(),
              absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(watched.Release().ok());
    EXPECT_GT(MustInspect(*mine, name).remaining, testing::kLongLease / 2) << LockKindName(kind);
    EXPECT_TRUE(longer.valid()) << LockKindName(kind);
    EXPECT_TRUE(longer.Release().ok());
  }
}

// "An immortal lock": renewed by a watchdog that nothing has told.
TEST_P(WatchdogSuiteTest, Watchdog_Released_RenewsNoMore) {
  const auto mine = NewClient(kKeptLease);
  const auto others = NewClient(kKeptLease);
  std::vector<LockLease> given;  // Of all kinds at the same time, so that one lease is waited for.
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    LockLease watched = MustAcquire(*mine, name, {.kind = kind});
    given.push_back(MustAcquire(*mine, name, {.kind = kind, .lease = kKeptLease}));
    EXPECT_TRUE(watched.Release().ok()) << LockKindName(kind);
  }
  for (const LockLease& lease : given) {
    const LockLease next = MustAcquire(*others, std::string(lease.name()), {.kind = lease.kind()});
    EXPECT_TRUE(next.valid()) << LockKindName(lease.kind());
    EXPECT_FALSE(lease.valid()) << LockKindName(lease.kind());
  }
}

TEST_P(CrashSuiteTest, Holder_IsKilled_OthersEnterWithinALease) {
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    const std::unique_ptr<AgentProcess> agent = NewAgent(kShortLease);
    const std::string held = agent->Acquire(name, LockKindName(kind));
    ASSERT_TRUE(absl::StartsWith(held, "held 0 1 ")) << held;
    agent->End();
    const Stopwatch watch;
    const LockLease next = MustAcquire(*others, name, {.kind = kind});
    EXPECT_TRUE(next.valid());
    EXPECT_LT(watch.elapsed(), servers_->HolderAfterlife(kShortLease) + kSlack) << LockKindName(kind);
  }
}

}  // namespace
}  // namespace stockade
