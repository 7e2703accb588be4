// Each kind that one owner holds at a time, of Java and of ours: who holds it, who waits, who counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <ostream>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "interop_test.h"
#include "stockade/locks/lock_service.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::InteropSetups;
using testing::InteropTest;
using ::testing::IsEmpty;
using testing::kByMessage;
using testing::kShortLease;
using ::testing::MatchesRegex;
using testing::RawReply;
using testing::RedisSetup;
using testing::Scaled;

// What is one lock, under both its names.
struct SharedKind {
  std::string java;
  LockKind ours;

  friend std::ostream& operator<<(std::ostream& out, const SharedKind& kind) { return out << kind.java; }
};

using Param = std::tuple<RedisSetup, SharedKind>;

class ExclusiveInteropTest : public InteropTest, public ::testing::WithParamInterface<Param> {
 protected:
  RedisSetup setup() const override { return std::get<0>(GetParam()); }
  LockKind kind() const { return std::get<1>(GetParam()).ours; }
  bool fenced() const { return java_kind() == "fenced"; }

  std::string Java(const std::string& owner, const std::string& command, const std::string& name,
                   const std::string& more = "") {
    return java_->Do(owner, command + " " + name + " " + java_kind() + " " + more);
  }
  void BeginJava(const std::string& owner, const std::string& name, absl::Duration lease = absl::ZeroDuration()) {
    java_->Begin(owner, "lock " + name + " " + java_kind() + " " + LeaseMs(lease));
  }
  // If the lock has tokens, the answer to success is a token.
  void JavaAcquires(const std::string& owner, const std::string& name, absl::Duration lease = absl::ZeroDuration()) {
    ExpectYes(Java(owner, "lock", name, LeaseMs(lease)));
  }
  bool JavaTries(const std::string& owner, const std::string& name, absl::Duration wait = absl::ZeroDuration()) {
    const std::string answer = Java(owner, "trylock", name, std::to_string(absl::ToInt64Milliseconds(wait)) + " -1");
    if (answer == (fenced() ? "null" : "false")) return false;
    EXPECT_THAT(answer, MatchesRegex(fenced() ? "[0-9]+" : "true"));
    return true;
  }
  void ExpectJavaEntered(const std::string& owner) { ExpectYes(AwaitEnd(owner)); }

  absl::StatusOr<LockLease> Try(const std::string& name, absl::Duration lease = absl::ZeroDuration()) {
    return ours_->Acquire(name,
                          {.kind = kind(), .wait = absl::ZeroDuration(), .lease = lease, .owner = LockOwner::New()});
  }
  LockLease Acquire(const std::string& name, absl::Duration lease = absl::ZeroDuration()) {
    absl::StatusOr<LockLease> held = Try(name, lease);
    EXPECT_TRUE(held.ok()) << held.status();
    return held.ok() ? *std::move(held) : LockLease();
  }
  bool IsBusy(const std::string& name) { return absl::IsDeadlineExceeded(Try(name).status()); }

 private:
  std::string java_kind() const { return std::get<1>(GetParam()).java; }
  static std::string LeaseMs(absl::Duration lease) {
    return lease == absl::ZeroDuration() ? "-1" : std::to_string(absl::ToInt64Milliseconds(lease));
  }
  void ExpectYes(const std::string& answer) const { EXPECT_THAT(answer, MatchesRegex(fenced() ? "[0-9]+" : "ok")); }
};

TEST_P(ExclusiveInteropTest, HeldByJava_OursIsRefused_AndSeesItHeld) {
  const std::string name = NewName();
  JavaAcquires("java", name);
  EXPECT_TRUE(IsBusy(name));
  const absl::StatusOr<LockState> state = ours_->Inspect(name);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(state->locked);
  EXPECT_EQ(state->owner_holds, 0);
  EXPECT_GT(state->remaining, absl::Seconds(15));
  EXPECT_LE(state->remaining, absl::Seconds(30));
  EXPECT_EQ(Java("java", "unlock", name), "ok");
  EXPECT_FALSE(ours_->Inspect(name).value().locked);
  EXPECT_TRUE(Acquire(name).valid());
}

TEST_P(ExclusiveInteropTest, HeldByOurs_JavaIsRefused_AndSeesItHeld) {
  const std::string name = NewName();
  LockLease held = Acquire(name);
  EXPECT_FALSE(JavaTries("java", name));
  EXPECT_EQ(Java("java", "islocked", name), "true");
  EXPECT_EQ(Java("java", "heldbyme", name), "false");
  EXPECT_EQ(Java("java", "holdcount", name), "0");
  const int64_t left = std::stoll(Java("java", "ttl", name));
  EXPECT_GT(left, 15'000);
  EXPECT_LE(left, 30'000);
  EXPECT_THAT(Java("java", "unlock", name), HasSubstr("IllegalMonitorStateException"));
  EXPECT_TRUE(held.Release().ok());
  EXPECT_EQ(Java("java", "islocked", name), "false");
  EXPECT_TRUE(JavaTries("java", name));
  EXPECT_EQ(Java("java", "unlock", name), "ok");
}

TEST_P(ExclusiveInteropTest, ReleasedByJava_OursThatWaits_IsWokenByTheMessage) {
  for (int64_t i = 0; i < Scaled(5, 50); ++i) {
    // A name with braces of its own has other names for its keys.
    const std::string name = i % 2 == 0 ? NewName() : "a{" + NewName() + "}b";
    JavaAcquires("java", name);
    Pending waits = Begin(name, kind());
    AwaitWaiters(name, kind(), 1);
    EXPECT_FALSE(Ended(waits));
    EXPECT_EQ(Java("java", "unlock", name), "ok");
    EXPECT_TRUE(Entered(waits).Release().ok());
  }
}

TEST_P(ExclusiveInteropTest, ReleasedByOurs_JavaThatWaits_IsWokenByTheMessage) {
  for (int64_t i = 0; i < Scaled(5, 50); ++i) {
    const std::string name = i % 2 == 0 ? NewName() : "a{" + NewName() + "}b";
    LockLease held = Acquire(name);
    BeginJava("java", name);
    AwaitJavaWaits("java");
    EXPECT_FALSE(java_->Ended("java"));
    EXPECT_TRUE(held.Release().ok());
    ExpectJavaEntered("java");
    EXPECT_TRUE(IsBusy(name));
    EXPECT_EQ(Java("java", "unlock", name), "ok");
  }
}

TEST_P(ExclusiveInteropTest, SeveralOfBothSidesWait_OneIsInAtATime_AndOursAllEnterInTime) {
  const std::string name = NewName();
  LockLease held = Acquire(name);
  constexpr size_t kEach = 3;
  std::vector<Pending> ours;
  std::vector<std::string> javas;
  for (size_t i = 0; i < kEach; ++i) {
    ours.push_back(Begin(name, kind()));
    javas.push_back("java" + std::to_string(i));
    BeginJava(javas.back(), name);
  }
  AwaitWaiters(name, kind(), kind() == LockKind::kFair ? 2 * kEach : 2);
  EXPECT_TRUE(held.Release().ok());
  // Each owner that enters leaves again, until all have entered.
  const auto begin = std::chrono::steady_clock::now();
  while (!ours.empty() || !javas.empty()) {
    std::erase_if(ours, [&](Pending& waits) {
      if (!Ended(waits)) return false;
      LockLease lease = Entered(waits);
      EXPECT_THAT(Counts(name), ElementsAre(1));
      EXPECT_TRUE(lease.Release().ok());
      return true;
    });
    std::erase_if(javas, [&](const std::string& owner) {
      if (!java_->Ended(owner)) return false;
      ExpectJavaEntered(owner);
      EXPECT_THAT(Counts(name), ElementsAre(1));
      EXPECT_EQ(Java(owner, "unlock", name), "ok");
      return true;
    });
    // A message that comes as one of Java's is about to wait may miss it: then that one waits for a lease.
    const absl::Duration passed = absl::FromChrono(std::chrono::steady_clock::now() - begin);
    ASSERT_TRUE(ours.empty() || passed < kByMessage) << ours.size() << " of ours are not in";
    ASSERT_LT(passed, 3 * kByMessage) << javas.size() << " of Java's are not in";
  }
}

TEST_P(ExclusiveInteropTest, EnteredAgain_TheCountIsWhereTheOtherReadsIt_AndEachReleaseLowersIt) {
  const std::string name = NewName();
  for (int64_t count = 1; count <= 3; ++count) {
    JavaAcquires("java", name);
    EXPECT_THAT(Counts(name), ElementsAre(count));
    EXPECT_EQ(Java("java", "holdcount", name), std::to_string(count));
  }
  for (int64_t count = 2; count >= 1; --count) {
    EXPECT_EQ(Java("java", "unlock", name), "ok");
    EXPECT_THAT(Counts(name), ElementsAre(count));
    EXPECT_TRUE(IsBusy(name));
  }
  EXPECT_EQ(Java("java", "unlock", name), "ok");

  const LockOwner owner = LockOwner::New();
  std::vector<LockLease> leases;
  for (int64_t count = 1; count <= 3; ++count) {
    absl::StatusOr<LockLease> lease = ours_->Acquire(name, {.kind = kind(), .owner = owner});
    ASSERT_TRUE(lease.ok()) << lease.status();
    leases.push_back(*std::move(lease));
    EXPECT_THAT(Counts(name), ElementsAre(count));
    EXPECT_EQ(ours_->Inspect(name, owner).value().owner_holds, count);
  }
  for (int64_t count = 2; count >= 1; --count) {
    EXPECT_TRUE(leases.back().Release().ok());
    leases.pop_back();
    EXPECT_THAT(Counts(name), ElementsAre(count));
    EXPECT_FALSE(JavaTries("java", name));
  }
  EXPECT_TRUE(leases.back().Release().ok());
  EXPECT_THAT(Counts(name), IsEmpty());
}

TEST_P(ExclusiveInteropTest, HolderInTheHash_IsAUuidAndANumber_OnBothSides) {
  const std::string name = NewName();
  const auto holders = [&] {
    std::vector<std::string> names;
    for (const RawReply& field : servers_->Call(name, {"HKEYS", name}).items) {
      if (field != "mode") names.push_back(field.text);
    }
    return names;
  };
  const auto holder = MatchesRegex(std::string("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+") +
                                   (kind() == LockKind::kWrite ? ":write" : ""));
  JavaAcquires("java", name);
  EXPECT_THAT(holders(), ElementsAre(holder));
  EXPECT_EQ(Java("java", "unlock", name), "ok");
  LockLease held = Acquire(name);
  EXPECT_THAT(holders(), ElementsAre(holder));
}

TEST_P(ExclusiveInteropTest, LeaseOfJavaEnds_OursThatWaits_Enters) {
  const std::string name = NewName();
  JavaAcquires("java", name, kShortLease);
  Pending waits = Begin(name, kind());
  LockLease held = Entered(waits);
  EXPECT_EQ(Java("java", "heldbyme", name), "false");
  EXPECT_THAT(Java("java", "unlock", name), HasSubstr("IllegalMonitorStateException"));
  EXPECT_THAT(Counts(name), ElementsAre(1));
  EXPECT_TRUE(held.valid());
}

TEST_P(ExclusiveInteropTest, LeaseOfOursEnds_JavaThatWaits_EntersAndIsNotDisturbed) {
  const std::string name = NewName();
  LockLease held = Acquire(name, kShortLease);
  BeginJava("java", name);
  ExpectJavaEntered("java");
  EXPECT_FALSE(held.valid());
  EXPECT_TRUE(absl::IsFailedPrecondition(held.Release()));
  EXPECT_EQ(Java("java", "heldbyme", name), "true");
  EXPECT_EQ(Java("java", "holdcount", name), "1");
  EXPECT_EQ(Java("java", "unlock", name), "ok");
}

TEST_P(ExclusiveInteropTest, RenewedByOurs_JavaThatWaitsThroughTwoLeases_DoesNotEnter) {
  const std::string name = NewName();
  const absl::Duration lease = 5 * kShortLease;
  const std::unique_ptr<LockService> service = Connect(lease);
  ASSERT_NE(service, nullptr);
  absl::StatusOr<LockLease> held = service->Acquire(name, {.kind = kind()});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_FALSE(JavaTries("java", name, 2 * lease));
  EXPECT_TRUE(held->valid());
  EXPECT_TRUE(held->Release().ok());
}

TEST_P(ExclusiveInteropTest, JavasTakenByForceByOurs_WhoWaitsEnters_AndJavaKnows) {
  const std::string name = NewName();
  JavaAcquires("java", name);
  BeginJava("waiter", name);
  AwaitJavaWaits("waiter");
  EXPECT_TRUE(ours_->ForceRelease(name).value());
  ExpectJavaEntered("waiter");
  EXPECT_EQ(Java("java", "heldbyme", name), "false");
  EXPECT_TRUE(ours_->ForceRelease(name).value());
  EXPECT_FALSE(ours_->ForceRelease(name).value());
}

TEST_P(ExclusiveInteropTest, OursTakenByForceByJava_WhoWaitsEnters_AndOursIsToldAtItsNextRenewal) {
  const std::string name = NewName();
  const std::unique_ptr<LockService> service = Connect(6 * kShortLease);
  ASSERT_NE(service, nullptr);
  absl::StatusOr<LockLease> held = service->Acquire(name, {.kind = kind()});
  ASSERT_TRUE(held.ok()) << held.status();
  std::promise<void> lost;
  const std::stop_callback on_loss(held->lost(), [&] { lost.set_value(); });
  Pending waits = Begin(name, kind());
  AwaitWaiters(name, kind(), 1);
  EXPECT_EQ(Java("java", "force", name), "true");
  EXPECT_TRUE(Entered(waits).valid());
  EXPECT_EQ(lost.get_future().wait_for(absl::ToChronoNanoseconds(kByMessage)), std::future_status::ready);
  EXPECT_FALSE(held->valid());
  EXPECT_TRUE(absl::IsFailedPrecondition(held->Release()));
}

INSTANTIATE_TEST_SUITE_P(
    Redisson, ExclusiveInteropTest,
    ::testing::Combine(::testing::ValuesIn(InteropSetups()),
                       ::testing::Values(SharedKind{"lock", LockKind::kReentrant}, SharedKind{"fair", LockKind::kFair},
                                         SharedKind{"write", LockKind::kWrite},
                                         SharedKind{"fenced", LockKind::kReentrant})),
    [](const ::testing::TestParamInfo<Param>& info) {
      return testing::RedisSetupName({std::get<0>(info.param), 0}) + "_" + std::get<1>(info.param).java;
    });

}  // namespace
}  // namespace stockade
