// Case 22.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

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
using testing::NewOwner;
using testing::Stopwatch;

class ReadWriteSuiteTest : public testing::LockSuiteTest {};
class CrashedReaderSuiteTest : public testing::ServerLockSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, ReadWriteSuiteTest, ::testing::ValuesIn(testing::WithoutRedlock(testing::LockSetups())),
                         testing::LockSetupName);
INSTANTIATE_TEST_SUITE_P(Locks, CrashedReaderSuiteTest,
                         ::testing::ValuesIn(testing::WithoutRedlock(testing::ServerSetups())), testing::LockSetupName);

TEST_P(ReadWriteSuiteTest, Read_SeveralClients_HoldTogetherAndTheWriterEntersAfterTheLast) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease first = MustAcquire(*mine, name, NewOwner({.kind = LockKind::kRead}));
  LockLease second = MustAcquire(*mine, name, NewOwner({.kind = LockKind::kRead, .wait = absl::ZeroDuration()}));
  LockLease third = MustAcquire(*others, name, NewOwner({.kind = LockKind::kRead, .wait = absl::ZeroDuration()}));
  std::future<LockLease> writer =
      std::async(std::launch::async, [&] { return MustAcquire(*others, name, {.kind = LockKind::kWrite}); });
  EXPECT_TRUE(first.Release().ok());
  EXPECT_TRUE(second.Release().ok());
  EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_TRUE(third.valid());
  EXPECT_TRUE(third.Release().ok());
  EXPECT_TRUE(writer.get().valid());
}

TEST_P(ReadWriteSuiteTest, Write_Held_KeepsReadersAndWritersOut) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease writer = MustAcquire(*mine, name, {.kind = LockKind::kWrite});
  EXPECT_FALSE(IsFree(*others, name, LockKind::kRead));
  EXPECT_FALSE(IsFree(*others, name, LockKind::kWrite));
  EXPECT_TRUE(writer.Release().ok());
  EXPECT_TRUE(IsFree(*others, name, LockKind::kRead));
}

TEST_P(ReadWriteSuiteTest, Write_ReleasedWhileReading_LetsWaitingReadersInAndNoWriter) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease writer = MustAcquire(*mine, name, {.kind = LockKind::kWrite});
  LockLease reader = MustAcquire(*mine, name, {.kind = LockKind::kRead, .wait = absl::ZeroDuration()});
  std::future<LockLease> waiting =
      std::async(std::launch::async, [&] { return MustAcquire(*others, name, {.kind = LockKind::kRead}); });
  EXPECT_FALSE(IsFree(*others, name, LockKind::kRead));
  EXPECT_TRUE(writer.Release().ok());
  LockLease other_reader = waiting.get();
  EXPECT_TRUE(other_reader.valid());
  EXPECT_FALSE(IsFree(*others, name, LockKind::kWrite));
  EXPECT_TRUE(reader.valid());
  EXPECT_TRUE(reader.Release().ok());
  EXPECT_FALSE(IsFree(*others, name, LockKind::kWrite));
  EXPECT_TRUE(other_reader.Release().ok());
  EXPECT_TRUE(IsFree(*others, name, LockKind::kWrite));
}

TEST_P(ReadWriteSuiteTest, Write_ReleasedWhileReading_TheReadHoldIsStillRenewed) {
  const auto mine = NewClient(2 * kKeptLease);
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease writer = MustAcquire(*mine, name, {.kind = LockKind::kWrite});
  LockLease reader = MustAcquire(*mine, name, {.kind = LockKind::kRead});
  EXPECT_TRUE(writer.Release().ok());
  EXPECT_EQ(others->Acquire(name, {.kind = LockKind::kWrite, .wait = 3 * kKeptLease}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(reader.valid());
  EXPECT_TRUE(reader.Release().ok());
}

TEST_P(ReadWriteSuiteTest, Write_OwnerOnlyReads_IsFailedPreconditionAndStillReads) {
  const auto locks = NewClient();
  const std::string name = NewName();
  LockLease reader = MustAcquire(*locks, name, {.kind = LockKind::kRead});
  const absl::StatusOr<LockLease> refused = locks->Acquire(name, {.kind = LockKind::kWrite});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_TRUE(reader.valid());
  EXPECT_TRUE(reader.Release().ok());
}

TEST_P(ReadWriteSuiteTest, ForceRelease_ReadAndWriteHeld_TakesBoth) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease writer = MustAcquire(*mine, name, {.kind = LockKind::kWrite});
  LockLease reader = MustAcquire(*mine, name, {.kind = LockKind::kRead});
  EXPECT_TRUE(others->ForceRelease(name).value());
  const LockLease next = MustAcquire(*others, name, {.kind = LockKind::kWrite});
  EXPECT_EQ(writer.Release().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(reader.Release().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(next.valid());
}

TEST_P(ReadWriteSuiteTest, Read_LapsesWhileAnotherReads_DoesNotKeepTheWriterOut) {
  const auto mine = NewClient(2 * kKeptLease);
  const auto others = NewClient();
  const std::string name = NewName();
  const LockLease lapsing = MustAcquire(*others, name, NewOwner({.kind = LockKind::kRead, .lease = kShortLease}));
  LockLease reader = MustAcquire(*mine, name, NewOwner({.kind = LockKind::kRead}));
  EXPECT_EQ(others->Acquire(name, NewOwner({.kind = LockKind::kWrite, .wait = 3 * kShortLease})).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(lapsing.valid());
  EXPECT_TRUE(reader.valid());
  EXPECT_TRUE(reader.Release().ok());
  EXPECT_TRUE(IsFree(*others, name, LockKind::kWrite));
}

TEST_P(ReadWriteSuiteTest, Acquire_NameHeldAsAnotherKind_IsFailedPrecondition) {
  const auto locks = NewClient();
  const std::string name = NewName();
  const LockLease lease = MustAcquire(*locks, name);
  const absl::StatusOr<LockLease> refused =
      locks->Acquire(name, NewOwner({.kind = LockKind::kRead, .wait = absl::ZeroDuration()}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_TRUE(lease.valid());
}

TEST_P(CrashedReaderSuiteTest, Reader_IsKilled_TheWriterEntersWithinALease) {
  const auto others = NewClient();
  const std::string name = NewName();
  const std::unique_ptr<AgentProcess> agent = NewAgent(kKeptLease);
  const std::string held = agent->Acquire(name, "read");
  ASSERT_TRUE(absl::StartsWith(held, "held 0 1 ")) << held;
  EXPECT_FALSE(IsFree(*others, name, LockKind::kWrite));
  agent->End();
  const Stopwatch watch;
  EXPECT_TRUE(MustAcquire(*others, name, {.kind = LockKind::kWrite}).valid());
  EXPECT_LT(watch.elapsed(), servers_->HolderAfterlife(kKeptLease) + kSlack);
}

}  // namespace
}  // namespace stockade
