// By the URL alone: what needs no server. Engines' own tests connect to theirs.
#include "stockade/locks/connect_lock_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stockade/base/manual_clock.h"

namespace stockade {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<LockService> ConnectLocal(const LockServiceOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<LockService>> service = ConnectLockService("local:", options);
  EXPECT_TRUE(service.ok()) << service.status();
  return *std::move(service);
}

const AcquireOptions kAtOnce = {.wait = absl::ZeroDuration()};

TEST(ConnectLockServiceTest, Local_TwoServices_ExcludeEachOther) {
  const std::unique_ptr<LockService> ours = ConnectLocal();
  const std::unique_ptr<LockService> theirs = ConnectLocal();
  EXPECT_EQ(ours->id(), theirs->id());
  absl::StatusOr<LockLease> held = ours->Acquire("a", kAtOnce);
  ASSERT_TRUE(held.ok()) << held.status();
  // The same thread, which is another owner there.
  EXPECT_TRUE(absl::IsDeadlineExceeded(theirs->Acquire("a", kAtOnce).status()));
  EXPECT_TRUE(held->Release().ok());
  EXPECT_TRUE(theirs->Acquire("a", kAtOnce).ok());
}

// So many that numbers of clients come again: not while somebody has one.
TEST(ConnectLockServiceTest, Local_ManyServicesLater_StillExcludesEachOther) {
  const std::unique_ptr<LockService> ours = ConnectLocal({.metrics = nullptr});
  const absl::StatusOr<LockLease> held = ours->Acquire("a", kAtOnce);
  ASSERT_TRUE(held.ok()) << held.status();
  for (int i = 0; i < 70'000; ++i) {
    const std::unique_ptr<LockService> theirs = ConnectLocal({.metrics = nullptr});
    if (i < 65'500) continue;
    ASSERT_TRUE(absl::IsDeadlineExceeded(theirs->Acquire("a", kAtOnce).status())) << i;
  }
}

TEST(ConnectLockServiceTest, Local_WaiterOfTheOtherService_IsWoken) {
  const std::unique_ptr<LockService> ours = ConnectLocal();
  const std::unique_ptr<LockService> theirs = ConnectLocal();
  absl::StatusOr<LockLease> held = ours->Acquire("a", {.kind = LockKind::kFair});
  ASSERT_TRUE(held.ok()) << held.status();
  std::atomic<bool> done = false;
  theirs->AcquireAsync("a", {.kind = LockKind::kFair}, [&](const absl::StatusOr<LockLease>& lease) {
    EXPECT_TRUE(lease.ok()) << lease.status();
    done = true;
    done.notify_all();
  });
  EXPECT_TRUE(held->Release().ok());
  done.wait(false);
}

TEST(ConnectLockServiceTest, Local_OfAnotherClock_HasOtherLocks) {
  ManualClock clock;
  const std::unique_ptr<LockService> ours = ConnectLocal();
  const std::unique_ptr<LockService> theirs = ConnectLocal({.clock = &clock});
  EXPECT_NE(ours->id(), theirs->id());
  const absl::StatusOr<LockLease> held = ours->Acquire("a", kAtOnce);
  EXPECT_TRUE(theirs->Acquire("a", kAtOnce).ok());
}

TEST(ConnectLockServiceTest, Local_WithMoreBehindIt_IsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(ConnectLockService("local:a").status()));
}

TEST(ConnectLockServiceTest, Scheme_InAnyCase_IsTheSame) {
  const absl::StatusOr<std::unique_ptr<LockService>> service = ConnectLockService("Local:");
  ASSERT_TRUE(service.ok()) << service.status();
  EXPECT_EQ((*service)->id(), ConnectLocal()->id());
}

TEST(ConnectLockServiceTest, UnknownScheme_NamesItAndThoseThatThereAre) {
  const absl::Status refused = ConnectLockService("etcd://127.0.0.1:2379").status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("etcd://"), HasSubstr("redis://"), HasSubstr("zookeeper://"), HasSubstr("mysql://")));
}

TEST(ConnectLockServiceTest, NoScheme_ShowsNothingThatMayBeSecret) {
  for (const char* const url : {"user:secret@127.0.0.1", "secret", "", ":secret@host://x", "secret/x://y"}) {
    const absl::Status refused = ConnectLockService(url).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("secret")));
  }
}

TEST(ConnectLockServiceTest, BadOptions_AreNamedBeforeAnythingIsConnected) {
  const absl::Status refused = ConnectLockService("local:", {.clock_drift = 2}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("clock_drift"));
}

}  // namespace
}  // namespace stockade
