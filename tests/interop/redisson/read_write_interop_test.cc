// The read-write lock: readers of both sides beside each other, writers of either alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "interop_test.h"
#include "stockade/locks/lock_service.h"
#include "support/await.h"

namespace stockade {
namespace {

using ::testing::ElementsAre;
using testing::InteropSetups;
using ::testing::IsEmpty;
using testing::kShortLease;

class ReadWriteInteropTest : public testing::SetupInteropTest {
 protected:
  // The command, of a read or a write lock.
  std::string Java(const std::string& owner, const std::string& command, const std::string& name,
                   const std::string& kind, const std::string& more = "") {
    return java_->Do(owner, command + " " + name + " " + kind + " " + more);
  }
  void BeginJava(const std::string& owner, const std::string& name, const std::string& kind) {
    java_->Begin(owner, "lock " + name + " " + kind + " -1");
  }

  absl::StatusOr<LockLease> Try(const std::string& name, LockKind kind, LockOwner owner = LockOwner::New(),
                                absl::Duration lease = absl::ZeroDuration()) {
    return ours_->Acquire(name, {.kind = kind, .wait = absl::ZeroDuration(), .lease = lease, .owner = owner});
  }
  LockLease Acquire(const std::string& name, LockKind kind, LockOwner owner = LockOwner::New(),
                    absl::Duration lease = absl::ZeroDuration()) {
    absl::StatusOr<LockLease> held = Try(name, kind, owner, lease);
    EXPECT_TRUE(held.ok()) << held.status();
    return held.ok() ? *std::move(held) : LockLease();
  }
  bool IsBusy(const std::string& name, LockKind kind) { return absl::IsDeadlineExceeded(Try(name, kind).status()); }
  // Blocks until one of two readers' holds has lapsed: each has a key of its own, which does.
  void AwaitLapse(const std::string& name) {
    testing::Await("a reader's lease to end", [&] {
      return servers_->Call(name, {"KEYS", "{" + name + "}:*rwlock_timeout*"}).items.size() == 1;
    });
  }
  std::string Mode(const std::string& name) { return servers_->Call(name, {"HGET", name, "mode"}).text; }
};

TEST_P(ReadWriteInteropTest, ReadersOfBothSides_AreInTogether_AndNoWriterOfEither) {
  const std::string name = NewName();
  EXPECT_EQ(Java("java", "lock", name, "read", "-1"), "ok");
  LockLease ours = Acquire(name, LockKind::kRead);
  EXPECT_EQ(Mode(name), "read");
  EXPECT_THAT(Counts(name), ElementsAre(1, 1));
  EXPECT_TRUE(IsBusy(name, LockKind::kWrite));
  EXPECT_EQ(Java("writer", "trylock", name, "write", "0 -1"), "false");
  EXPECT_EQ(Java("java", "lock", name, "read", "-1"), "ok");
  EXPECT_THAT(Counts(name), ElementsAre(2, 1));
  EXPECT_EQ(Java("java", "unlock", name, "read"), "ok");
  EXPECT_TRUE(ours.Release().ok());
  EXPECT_THAT(Counts(name), ElementsAre(1));
  EXPECT_EQ(Java("java", "unlock", name, "read"), "ok");
  EXPECT_THAT(Counts(name), IsEmpty());
}

TEST_P(ReadWriteInteropTest, WriterOfEither_KeepsReadersOfTheOtherOut) {
  const std::string name = NewName();
  EXPECT_EQ(Java("java", "lock", name, "write", "-1"), "ok");
  EXPECT_TRUE(IsBusy(name, LockKind::kRead));
  EXPECT_EQ(Java("java", "unlock", name, "write"), "ok");
  const LockLease ours = Acquire(name, LockKind::kWrite);
  EXPECT_EQ(Mode(name), "write");
  EXPECT_EQ(Java("java", "trylock", name, "read", "0 -1"), "false");
}

TEST_P(ReadWriteInteropTest, WriterOfJavaReleases_AllReadersWhoWait_AreWoken) {
  const std::string name = NewName();
  EXPECT_EQ(Java("java", "lock", name, "write", "-1"), "ok");
  std::vector<Pending> ours;
  for (int i = 0; i < 3; ++i) ours.push_back(Begin(name, LockKind::kRead));
  BeginJava("reader", name, "read");
  AwaitWaiters(name, LockKind::kRead, 2);
  AwaitJavaWaits("reader");
  EXPECT_EQ(Java("java", "unlock", name, "write"), "ok");
  std::vector<LockLease> held;
  for (Pending& reader : ours) held.push_back(Entered(reader));
  EXPECT_EQ(AwaitEnd("reader"), "ok");
  EXPECT_THAT(Counts(name), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(Java("reader", "unlock", name, "read"), "ok");
}

TEST_P(ReadWriteInteropTest, WriterOfOursReleases_AllReadersWhoWait_AreWoken) {
  const std::string name = NewName();
  LockLease writes = Acquire(name, LockKind::kWrite);
  Pending ours = Begin(name, LockKind::kRead);
  const std::vector<std::string> readers = {"reader1", "reader2", "reader3"};
  for (const std::string& reader : readers) BeginJava(reader, name, "read");
  AwaitWaiters(name, LockKind::kRead, 2);
  for (const std::string& reader : readers) AwaitJavaWaits(reader);
  EXPECT_TRUE(writes.Release().ok());
  const LockLease held = Entered(ours);
  for (const std::string& reader : readers) EXPECT_EQ(AwaitEnd(reader), "ok");
  EXPECT_THAT(Counts(name), ElementsAre(1, 1, 1, 1));
  for (const std::string& reader : readers) EXPECT_EQ(Java(reader, "unlock", name, "read"), "ok");
}

TEST_P(ReadWriteInteropTest, LastReaderReleases_WriterOfTheOtherSideWhoWaits_IsWoken) {
  const std::string name = NewName();
  EXPECT_EQ(Java("java", "lock", name, "read", "-1"), "ok");
  LockLease reads = Acquire(name, LockKind::kRead);
  Pending writes = Begin(name, LockKind::kWrite);
  AwaitWaiters(name, LockKind::kWrite, 1);
  EXPECT_TRUE(reads.Release().ok());
  EXPECT_FALSE(Ended(writes));
  EXPECT_EQ(Java("java", "unlock", name, "read"), "ok");
  EXPECT_TRUE(Entered(writes).Release().ok());

  const std::string other = NewName();
  reads = Acquire(other, LockKind::kRead);
  EXPECT_EQ(Java("java", "lock", other, "read", "-1"), "ok");
  BeginJava("writer", other, "write");
  AwaitJavaWaits("writer");
  EXPECT_EQ(Java("java", "unlock", other, "read"), "ok");
  EXPECT_FALSE(java_->Ended("writer"));
  EXPECT_TRUE(reads.Release().ok());
  EXPECT_EQ(AwaitEnd("writer"), "ok");
  EXPECT_EQ(Java("writer", "unlock", other, "write"), "ok");
}

TEST_P(ReadWriteInteropTest, JavaGoesFromWritingToReading_OursMayReadThen_AndNotWrite) {
  const std::string name = NewName();
  EXPECT_EQ(Java("java", "lock", name, "write", "-1"), "ok");
  EXPECT_EQ(Java("java", "lock", name, "read", "-1"), "ok");
  EXPECT_TRUE(IsBusy(name, LockKind::kRead));
  EXPECT_EQ(Java("java", "unlock", name, "write"), "ok");
  EXPECT_EQ(Mode(name), "read");
  LockLease ours = Acquire(name, LockKind::kRead);
  EXPECT_TRUE(IsBusy(name, LockKind::kWrite));
  EXPECT_EQ(Java("java", "unlock", name, "read"), "ok");
  EXPECT_TRUE(ours.Release().ok());
  EXPECT_THAT(Counts(name), IsEmpty());
}

TEST_P(ReadWriteInteropTest, OursGoesFromWritingToReading_JavasReaderWhoWaits_IsWoken_AndNoWriterEnters) {
  const std::string name = NewName();
  const LockOwner owner = LockOwner::New();
  LockLease writes = Acquire(name, LockKind::kWrite, owner);
  LockLease reads = Acquire(name, LockKind::kRead, owner);
  BeginJava("reader", name, "read");
  AwaitJavaWaits("reader");
  EXPECT_FALSE(java_->Ended("reader"));
  EXPECT_TRUE(writes.Release().ok());
  EXPECT_EQ(AwaitEnd("reader"), "ok");
  EXPECT_EQ(Java("writer", "trylock", name, "write", "0 -1"), "false");
  EXPECT_TRUE(reads.valid());
  EXPECT_EQ(Java("reader", "unlock", name, "read"), "ok");
  EXPECT_TRUE(reads.Release().ok());
  EXPECT_THAT(Counts(name), IsEmpty());
}

TEST_P(ReadWriteInteropTest, ReaderWhoseLeaseHasEnded_DoesNotKeepTheLock_OnceTheOthersAreGone) {
  for (const bool java_lapses : {true, false}) {
    const std::string name = NewName();
    if (java_lapses) {
      EXPECT_EQ(Java("lapses", "lock", name, "read", "500"), "ok");
      LockLease ours = Acquire(name, LockKind::kRead);
      AwaitLapse(name);
      EXPECT_TRUE(ours.Release().ok());
      EXPECT_TRUE(Acquire(name, LockKind::kWrite).valid());
    } else {
      LockLease lapses = Acquire(name, LockKind::kRead, LockOwner::New(), kShortLease);
      EXPECT_EQ(Java("java", "lock", name, "read", "-1"), "ok");
      AwaitLapse(name);
      EXPECT_FALSE(lapses.valid());
      EXPECT_EQ(Java("java", "unlock", name, "read"), "ok");
      EXPECT_EQ(Java("java", "trylock", name, "write", "0 -1"), "true");
      EXPECT_EQ(Java("java", "unlock", name, "write"), "ok");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Redisson, ReadWriteInteropTest, ::testing::ValuesIn(InteropSetups()), testing::RedisSetupName);

}  // namespace
}  // namespace stockade
