// The engine of LocalLockService by itself, on a clock that stands still.
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "engines/local/local_lock_engine.h"
#include "stockade/base/manual_clock.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

constexpr absl::Duration kLease = absl::Seconds(10);

class LocalEngineTest : public ::testing::Test {
 protected:
  static HoldKey Key(OwnerId owner, LockKind kind = LockKind::kReentrant) {
    return {.name = "seat", .kind = kind, .owner = owner};
  }
  LockTry Step(const HoldKey& hold, absl::Duration lease = kLease) {
    return {.hold = hold, .lease = lease, .sequence = ++sequence_};
  }
  LockTry Run(LockTry step) {
    engine_.TryMany({&step, 1});
    return step;
  }
  LockTry Try(const HoldKey& hold, absl::Duration lease = kLease) { return Run(Step(hold, lease)); }
  LockTry Queue(OwnerId owner) {
    LockTry step = Step(Key(owner, LockKind::kFair));
    step.queue = true;
    return Run(step);
  }
  LockRelease Run(LockRelease step) {
    engine_.Release(step);
    return step;
  }
  LockRelease Release(const HoldKey& hold, int64_t keep = 0) {
    return Run(LockRelease{.hold = hold, .keep = keep, .sequence = ++sequence_});
  }
  LockRelease GiveUp(const HoldKey& hold) {
    return Run(LockRelease{.hold = hold, .sequence = ++sequence_, .gives_up = true});
  }
  bool Renew(const HoldKey& hold, absl::Duration lease = kLease) {
    LockRenewal renewal = {.hold = hold, .lease = lease};
    engine_.RenewMany({&renewal, 1}, absl::Seconds(1));
    EXPECT_TRUE(renewal.status.ok()) << renewal.status;
    return renewal.held;
  }
  LockState Look(const HoldKey& hold) { return engine_.Inspect(hold.name, hold.owner, absl::Seconds(1)).value(); }
  std::unique_ptr<LockWatch> Count(const HoldKey& hold, int& hints) {
    return engine_.Watch(hold, [&hints] { ++hints; });
  }

  ManualClock clock_;
  locks_internal::LocalLockEngine engine_{&clock_};
  uint64_t sequence_ = 0;
};

TEST_F(LocalEngineTest, Try_NobodyHolds_AcquiresWithCountOneAndAToken) {
  const LockTry held = Try(Key(1));
  EXPECT_TRUE(held.acquired) << held.status;
  EXPECT_EQ(held.hold_count, 1);
  EXPECT_TRUE(held.fencing_token.has_value());
}

TEST_F(LocalEngineTest, Try_AnotherHolds_SaysWhenThatLapses) {
  Try(Key(1));
  clock_.Advance(absl::Seconds(4));
  const LockTry refused = Try(Key(2));
  EXPECT_FALSE(refused.acquired);
  EXPECT_TRUE(refused.status.ok()) << refused.status;
  EXPECT_EQ(refused.retry_after, absl::Seconds(6));
}

TEST_F(LocalEngineTest, Try_LeaseOfAnotherIsOver_AcquiresWithALargerToken) {
  const LockTry first = Try(Key(1));
  clock_.Advance(kLease - absl::Nanoseconds(1));
  EXPECT_FALSE(Try(Key(2)).acquired);
  clock_.Advance(absl::Nanoseconds(1));
  const LockTry second = Try(Key(2));
  EXPECT_TRUE(second.acquired);
  EXPECT_GT(*second.fencing_token, *first.fencing_token);
  EXPECT_FALSE(Renew(Key(1)));
}

TEST_F(LocalEngineTest, Try_SameOwnerAgain_CountsAndDoesNotShortenTheLease) {
  Try(Key(1));
  const LockTry again = Try(Key(1), absl::Seconds(1));
  EXPECT_EQ(again.hold_count, 2);
  EXPECT_EQ(Look(Key(1)).remaining, kLease);
}

TEST_F(LocalEngineTest, Try_SameStepSentAgain_AnswersTheSameAndCountsOnce) {
  LockTry step = Step(Key(1));
  const LockTry first = Run(step);
  step.repeated = true;
  const LockTry again = Run(step);
  EXPECT_TRUE(again.acquired);
  EXPECT_EQ(again.hold_count, 1);
  EXPECT_EQ(again.fencing_token, first.fencing_token);
  EXPECT_EQ(Look(Key(1)).owner_holds, 1);
}

TEST_F(LocalEngineTest, Try_ComesAfterItWasTakenBack_IsRefused) {
  const LockTry late = Step(Key(1));
  const LockRelease taken_back =
      Run(LockRelease{.hold = Key(1), .sequence = ++sequence_, .repeated = true, .gives_up = true});
  EXPECT_TRUE(taken_back.status.ok()) << taken_back.status;
  EXPECT_FALSE(taken_back.held);
  const LockTry refused = Run(late);
  EXPECT_FALSE(refused.acquired);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kAborted) << refused.status;
  EXPECT_FALSE(Look(Key(1)).locked);
}

TEST_F(LocalEngineTest, Try_ComesAfterALaterTryOfTheSameHold_IsRefused) {
  const LockTry late = Step(Key(1));
  Try(Key(1));
  EXPECT_EQ(Run(late).status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Look(Key(1)).owner_holds, 1);
}

TEST_F(LocalEngineTest, Try_NameIsHeldAsAnotherKind_IsFailedPreconditionThatNamesBoth) {
  Try(Key(1));
  const LockTry refused = Try(Key(2, LockKind::kFair));
  EXPECT_EQ(refused.status,
            absl::FailedPreconditionError("lock 'seat' is used as a reentrant lock, not as a fair lock"));
  Release(Key(1));
  EXPECT_TRUE(Try(Key(2, LockKind::kFair)).acquired);
}

TEST_F(LocalEngineTest, Renew_Held_LivesALeaseFromNow) {
  Try(Key(1));
  clock_.Advance(absl::Seconds(9));
  EXPECT_TRUE(Renew(Key(1)));
  EXPECT_EQ(Look(Key(1)).remaining, kLease);
  EXPECT_TRUE(Renew(Key(1), absl::Seconds(1)));
  EXPECT_EQ(Look(Key(1)).remaining, kLease);
}

TEST_F(LocalEngineTest, Release_OneOfTwoHolds_KeepsOne) {
  Try(Key(1));
  Try(Key(1));
  EXPECT_TRUE(Release(Key(1), 1).held);
  EXPECT_EQ(Look(Key(1)).owner_holds, 1);
  EXPECT_FALSE(Try(Key(2)).acquired);
  EXPECT_TRUE(Release(Key(1)).held);
  EXPECT_TRUE(Try(Key(2)).acquired);
}

TEST_F(LocalEngineTest, Release_SentAgain_AnswersTheSame) {
  Try(Key(1));
  const LockRelease step = {.hold = Key(1), .sequence = ++sequence_};
  EXPECT_TRUE(Run(step).held);
  EXPECT_TRUE(Run(step).held);
}

TEST_F(LocalEngineTest, Release_AnotherHoldsByNow_SaysNotHeldAndDisturbsNobody) {
  Try(Key(1));
  clock_.Advance(kLease);
  Try(Key(2));
  const LockRelease late = Release(Key(1));
  EXPECT_TRUE(late.status.ok()) << late.status;
  EXPECT_FALSE(late.held);
  EXPECT_EQ(Look(Key(2)).owner_holds, 1);
}

TEST_F(LocalEngineTest, Queue_SeveralWait_EnterInTheOrderInWhichTheyCame) {
  Queue(1);
  EXPECT_FALSE(Queue(2).acquired);
  EXPECT_FALSE(Queue(3).acquired);
  Release(Key(1, LockKind::kFair));
  const LockTry early = Queue(3);
  EXPECT_FALSE(early.acquired);
  EXPECT_LE(early.retry_after, absl::Milliseconds(100));
  EXPECT_TRUE(Queue(2).acquired);
  Release(Key(2, LockKind::kFair));
  EXPECT_TRUE(Queue(3).acquired);
}

TEST_F(LocalEngineTest, Queue_FirstGivesUp_NextEntersAndIsTold) {
  Queue(1);
  Queue(2);
  Queue(3);
  int hints = 0;
  const auto watch = Count(Key(3, LockKind::kFair), hints);
  Release(Key(1, LockKind::kFair));
  EXPECT_EQ(hints, 1);  // Of the watch itself: the release was for the first.
  EXPECT_FALSE(GiveUp(Key(2, LockKind::kFair)).held);
  EXPECT_EQ(hints, 2);
  EXPECT_TRUE(Queue(3).acquired);
}

TEST_F(LocalEngineTest, Queue_TryOnceWhileSomebodyWaits_NeitherPassesNorQueues) {
  Queue(1);
  Queue(2);
  Release(Key(1, LockKind::kFair));
  EXPECT_FALSE(Try(Key(3, LockKind::kFair)).acquired);
  EXPECT_TRUE(Queue(2).acquired);
  Release(Key(2, LockKind::kFair));
  EXPECT_EQ(engine_.names(), 0u);
}

TEST_F(LocalEngineTest, Read_Several_HoldTogetherAndKeepAWriterOut) {
  EXPECT_TRUE(Try(Key(1, LockKind::kRead), absl::Seconds(5)).acquired);
  EXPECT_TRUE(Try(Key(2, LockKind::kRead)).acquired);
  const LockTry writer = Try(Key(3, LockKind::kWrite));
  EXPECT_FALSE(writer.acquired);
  EXPECT_EQ(writer.retry_after, kLease);
  Release(Key(1, LockKind::kRead));
  clock_.Advance(kLease);  // The other reader's hold lapses by itself.
  EXPECT_TRUE(Try(Key(3, LockKind::kWrite)).acquired);
  EXPECT_FALSE(Try(Key(1, LockKind::kRead)).acquired);
}

TEST_F(LocalEngineTest, Read_OfTheWriter_StaysWhenTheWriteEndsAndLetsReadersIn) {
  Try(Key(1, LockKind::kWrite));
  EXPECT_TRUE(Try(Key(1, LockKind::kRead)).acquired);
  int hints = 0;
  const auto watch = Count(Key(2, LockKind::kRead), hints);
  Release(Key(1, LockKind::kWrite));
  EXPECT_EQ(hints, 2);
  EXPECT_TRUE(Try(Key(2, LockKind::kRead)).acquired);
  EXPECT_FALSE(Try(Key(3, LockKind::kWrite)).acquired);
}

TEST_F(LocalEngineTest, Write_OfAReader_IsBusyUntilThatIsOver) {
  Try(Key(1, LockKind::kRead));
  const LockTry busy = Try(Key(1, LockKind::kWrite));
  EXPECT_EQ(busy.status, absl::OkStatus());
  EXPECT_FALSE(busy.acquired);
  clock_.Advance(busy.retry_after);
  EXPECT_TRUE(Try(Key(1, LockKind::kWrite)).acquired);
}

TEST_F(LocalEngineTest, ForceRelease_Held_FreesItWithAHint) {
  Try(Key(1));
  int hints = 0;
  const auto watch = Count(Key(2), hints);
  EXPECT_TRUE(engine_.ForceRelease("seat", absl::Seconds(1)).value());
  EXPECT_EQ(hints, 2);
  EXPECT_FALSE(Renew(Key(1)));
  EXPECT_FALSE(Release(Key(1)).held);
  EXPECT_FALSE(engine_.ForceRelease("seat", absl::Seconds(1)).value());
}

TEST_F(LocalEngineTest, Watch_Ended_IsToldNoMore) {
  Try(Key(1));
  int hints = 0;
  auto watch = Count(Key(2), hints);
  watch.reset();
  Release(Key(1));
  EXPECT_EQ(hints, 1);
  EXPECT_EQ(engine_.names(), 0u);
}

TEST_F(LocalEngineTest, Watch_EndedByItsOwnHint_DoesNotWaitForItself) {
  Try(Key(1));
  int hints = 0;
  std::unique_ptr<LockWatch> watch;
  watch = engine_.Watch(Key(2), [&] {
    if (++hints == 2) watch.reset();
  });
  Release(Key(1));
  EXPECT_EQ(hints, 2);
}

TEST_F(LocalEngineTest, Memory_AllReleased_IsGivenBack) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    Try(Key(1, kind));
    Release(Key(1, kind));
    EXPECT_EQ(engine_.names(), 0u) << LockKindName(kind);
  }
  Look(Key(1));
  Renew(Key(1));
  EXPECT_EQ(engine_.names(), 0u);
}

TEST_F(LocalEngineTest, Memory_ManyNamesLapse_IsGivenBackWhileOthersCome) {
  for (int i = 0; i < 10'000; ++i) {
    Try({.name = base_internal::Concat("order ", i), .kind = LockKind::kReentrant, .owner = 1});
    clock_.Advance(kLease / 10);
  }
  EXPECT_LE(engine_.names(), 64u);
}

}  // namespace
}  // namespace stockade
