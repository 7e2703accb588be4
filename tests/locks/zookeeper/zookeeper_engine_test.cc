#include "locks/zookeeper/zookeeper_engine_fixture.h"

namespace stockade {
namespace {

using testing::Await;
using testing::HintCount;
using testing::Holder;
using ::testing::SizeIs;
using testing::ZooKeeperEngineOn;
using testing::ZooKeeperEngineTest;

TEST_F(ZooKeeperEngineTest, Free_IsAcquiredReenteredAndReleased) {
  Holder holder(*engine_, "a/b.\xff");
  const LockTry first = holder.Try();
  ASSERT_TRUE(first.status.ok()) << first.status;
  ASSERT_TRUE(first.acquired);
  EXPECT_EQ(first.hold_count, 1);
  ASSERT_NE(first.session, nullptr);
  const LockTry second = holder.Queue();
  EXPECT_EQ(second.hold_count, 2);
  EXPECT_EQ(second.fencing_token, first.fencing_token);
  EXPECT_EQ(second.session, first.session);
  EXPECT_THAT(Nodes("a%2Fb.%FF"), SizeIs(1));
  EXPECT_EQ(holder.Inspect().owner_holds, 2);
  EXPECT_TRUE(holder.Release(1).held);
  EXPECT_TRUE(holder.Inspect().locked);
  EXPECT_TRUE(holder.Release(0).held);
  EXPECT_FALSE(holder.Inspect().locked);
  EXPECT_THAT(Nodes("a%2Fb.%FF"), SizeIs(0));
  EXPECT_FALSE(holder.Release(0).held);
}

TEST_F(ZooKeeperEngineTest, SameStepAgain_IsAnsweredTheSame) {
  Holder holder(*engine_, "a");
  const LockTry first = holder.Try();
  const LockTry again = holder.TryAgain();
  EXPECT_TRUE(again.acquired);
  EXPECT_EQ(again.hold_count, 1);
  EXPECT_EQ(again.fencing_token, first.fencing_token);
  holder.Try();
  holder.set_sequence(1);
  EXPECT_TRUE(absl::IsAborted(holder.TryAgain().status));
}

TEST_F(ZooKeeperEngineTest, Busy_WithoutQueueLeavesNothingBehind) {
  Holder holder(*engine_, "a");
  Holder other(*engine_, "a");
  holder.Try();
  const LockTry busy = other.Try();
  EXPECT_TRUE(busy.status.ok());
  EXPECT_FALSE(busy.acquired);
  EXPECT_THAT(Nodes("a"), SizeIs(1));
}

TEST_F(ZooKeeperEngineTest, Queued_EntersInTurnAtItsHint) {
  const auto other_engine = ZooKeeperEngineOn(server_->url());
  Holder holder(*engine_, "a");
  Holder second(*other_engine, "a");
  Holder third(*engine_, "a");
  const LockTry first = holder.Try();
  EXPECT_FALSE(second.Queue().acquired);
  EXPECT_FALSE(third.Queue().acquired);
  HintCount of_second;
  HintCount of_third;
  const auto watch_second = second.Hear(of_second.hint());
  const auto watch_third = third.Hear(of_third.hint());
  holder.Release();
  of_second.AwaitMoreThan(0);
  EXPECT_EQ(of_third.count(), 0);  // It watches the one before it alone.
  EXPECT_FALSE(third.Queue().acquired);
  const LockTry entered = second.Queue();
  EXPECT_TRUE(entered.acquired);
  EXPECT_GT(*entered.fencing_token, *first.fencing_token);
  second.Release();
  of_third.AwaitMoreThan(0);
  EXPECT_TRUE(third.Queue().acquired);
}

TEST_F(ZooKeeperEngineTest, PredecessorGivesUp_WatchGoesOnAtTheOneBefore) {
  Holder holder(*engine_, "a");
  Holder second(*engine_, "a");
  Holder third(*engine_, "a");
  holder.Try();
  second.Queue();
  third.Queue();
  HintCount hints;
  const auto watch = third.Hear(hints.hint());
  const LockRelease given_up = second.GiveUp();
  EXPECT_TRUE(given_up.status.ok());
  EXPECT_FALSE(given_up.held);
  hints.AwaitMoreThan(0);
  EXPECT_FALSE(third.Queue().acquired);
  const int before = hints.count();
  holder.Release();
  hints.AwaitMoreThan(before);
  EXPECT_TRUE(third.Queue().acquired);
}

TEST_F(ZooKeeperEngineTest, PredecessorGoneBeforeTheWatch_HintsAtOnce) {
  Holder holder(*engine_, "a");
  Holder second(*engine_, "a");
  holder.Try();
  second.Queue();
  holder.Release();
  HintCount hints;
  const auto watch = second.Hear(hints.hint());
  hints.AwaitMoreThan(0);
}

TEST_F(ZooKeeperEngineTest, OtherKind_IsRefusedAndLeavesNothingBehind) {
  Holder holder(*engine_, "a");
  holder.Try();
  for (const LockKind kind : {LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    Holder other(*engine_, "a", kind);
    EXPECT_TRUE(absl::IsFailedPrecondition(other.Queue().status));
    EXPECT_TRUE(absl::IsFailedPrecondition(other.Try().status));
  }
  EXPECT_THAT(Nodes("a"), SizeIs(1));
}

TEST_F(ZooKeeperEngineTest, Downgrade_KeepsWritersOutAndLetsReadersIn) {
  const LockOwner owner = LockOwner::New();
  Holder writer(*engine_, "a", LockKind::kWrite, owner);
  Holder reader(*engine_, "a", LockKind::kRead, owner);
  Holder next_reader(*engine_, "a", LockKind::kRead);
  Holder next_writer(*engine_, "a", LockKind::kWrite);
  const LockTry write = writer.Queue();
  ASSERT_TRUE(write.acquired);
  EXPECT_FALSE(next_reader.Queue().acquired);
  EXPECT_FALSE(next_writer.Queue().acquired);
  const LockTry nested = reader.Queue();
  EXPECT_TRUE(nested.acquired) << nested.status;
  EXPECT_EQ(nested.fencing_token, write.fencing_token);
  EXPECT_TRUE(writer.Release().held);
  EXPECT_TRUE(next_reader.Queue().acquired);
  EXPECT_FALSE(next_writer.Queue().acquired);
  EXPECT_FALSE(writer.Try().acquired) << "it would wait for itself";
  EXPECT_TRUE(reader.Release().held);
  EXPECT_TRUE(next_reader.Release().held);
  const LockTry entered = next_writer.Queue();
  ASSERT_TRUE(entered.acquired);
  EXPECT_GT(*entered.fencing_token, *nested.fencing_token);
}

TEST_F(ZooKeeperEngineTest, ForceReleased_IsFoundOutByRenewalReleaseAndReentry) {
  Holder renews(*engine_, "a", LockKind::kRead);
  Holder releases(*engine_, "a", LockKind::kRead);
  Holder reenters(*engine_, "a", LockKind::kRead);
  Holder waits(*engine_, "a", LockKind::kWrite);
  const LockTry before = reenters.Try();
  renews.Try();
  releases.Try();
  EXPECT_FALSE(waits.Queue().acquired);
  EXPECT_EQ(engine_->ForceRelease("a", absl::Seconds(20)).value(), LockKind::kRead);
  EXPECT_THAT(Nodes("a"), SizeIs(1));
  EXPECT_FALSE(renews.Renew(absl::Seconds(30)).held);
  EXPECT_FALSE(releases.Release().held);
  EXPECT_TRUE(waits.Queue().acquired);
  waits.Release();
  const LockTry anew = reenters.Try();
  EXPECT_EQ(anew.hold_count, 1);
  EXPECT_GT(*anew.fencing_token, *before.fencing_token);
  EXPECT_EQ(engine_->ForceRelease("b", absl::Seconds(20)).value(), std::nullopt);
}

TEST_F(ZooKeeperEngineTest, WriteTakenAway_ReadWithinItIsAReadLikeAnyOther) {
  const LockOwner owner = LockOwner::New();
  Holder writer(*engine_, "a", LockKind::kWrite, owner);
  Holder reader(*engine_, "a", LockKind::kRead, owner);
  Holder next(*engine_, "a", LockKind::kWrite);
  writer.Queue();
  next.Queue();
  ASSERT_TRUE(engine_->ForceRelease("a", absl::Seconds(20)).value());
  ASSERT_TRUE(next.Queue().acquired);
  const LockTry read = reader.Queue();
  EXPECT_TRUE(read.status.ok()) << read.status;
  EXPECT_FALSE(read.acquired);
}

TEST_F(ZooKeeperEngineTest, LeaseOver_NodeIsDeletedUnlessRenewed) {
  Holder renewed(*engine_, "a");
  Holder lapses(*engine_, "b");
  renewed.Try(absl::Seconds(2));
  EXPECT_TRUE(renewed.Renew(absl::Seconds(30)).held);
  lapses.Try(absl::Seconds(2));  // Ends later than what was renewed would have.
  AwaitNodes("b", 0);
  EXPECT_FALSE(lapses.Renew(absl::Seconds(30)).held);
  EXPECT_THAT(Nodes("a"), SizeIs(1));
}

TEST_F(ZooKeeperEngineTest, PlaceThatNoTryKeeps_IsGivenUp) {
  const auto engine = ZooKeeperEngineOn(server_->url(), {.service = {.watchdog_lease = absl::Milliseconds(300),
                                                                     .engine_timeout = absl::Milliseconds(300)},
                                                         .session_timeout = absl::Seconds(20)});
  Holder holder(*engine_, "a");
  Holder waiter(*engine, "a");
  holder.Try();
  // On a busy machine it may be gone before it is seen.
  Await("a place", [&] {
    EXPECT_FALSE(waiter.Queue().acquired);
    return Nodes("a").size() == 2;
  });
  AwaitNodes("a", 1);
  HintCount hints;
  const auto watch = waiter.Hear(hints.hint());
  hints.AwaitMoreThan(0);  // To take a new one.
  EXPECT_FALSE(waiter.Queue().acquired);
  EXPECT_TRUE(waiter.GiveUp().status.ok());
}

TEST_F(ZooKeeperEngineTest, ShortReentry_DoesNotShortenTheLease) {
  Holder holder(*engine_, "a");
  holder.Try(absl::Seconds(30));
  holder.Try(absl::Milliseconds(10));
  EXPECT_GT(holder.Inspect().remaining, absl::Seconds(10));
}

TEST_F(ZooKeeperEngineTest, EmptyLock_IsCleanedUpAndCanBeTakenAgain) {
  Holder holder(*engine_, "a");
  const LockTry first = holder.Try();
  holder.Release();
  Await("the lock's node to go", [&] { return !raw_->Exists(Path("a")); });
  const LockTry again = holder.Try();
  EXPECT_TRUE(again.acquired) << again.status;
  EXPECT_GT(*again.fencing_token, *first.fencing_token);
}

TEST_F(ZooKeeperEngineTest, RootGone_IsMadeAgain) {
  raw_->DeleteTree("/stockade");
  Holder holder(*engine_, "a");
  EXPECT_TRUE(holder.Queue().acquired);
  EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held);
}

TEST_F(ZooKeeperEngineTest, Destroyed_LeavesNoNodes) {
  auto engine = ZooKeeperEngineOn(server_->url());
  Holder holder(*engine, "a");
  holder.Try();
  EXPECT_THAT(Nodes("a"), SizeIs(1));
  engine.reset();
  EXPECT_THAT(Nodes("a"), SizeIs(0));
}

TEST_F(ZooKeeperEngineTest, ManyTries_GoTogether) {
  std::vector<LockTry> tries;
  tries.reserve(50);
  for (int i = 0; i < 50; ++i) {
    tries.push_back({.hold = {.name = "lock " + std::to_string(i % 40), .owner = LockOwner::New().id()},
                     .lease = absl::Seconds(30),
                     .sequence = 1,
                     .queue = i % 2 == 0,
                     .timeout = absl::Seconds(20)});
  }
  engine_->TryMany(tries);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(tries[i].status.ok()) << tries[i].status;
    if (i < 40) {
      EXPECT_TRUE(tries[i].acquired) << i;
    }
  }
}

}  // namespace
}  // namespace stockade
