// What the steps of the MySQL engine leave behind, looked at by another connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "locks/mysql/mysql_engine_fixture.h"

namespace stockade {
namespace {

using ::testing::HasSubstr;
using testing::Holder;

constexpr absl::StatusCode kAborted = absl::StatusCode::kAborted;

class MySqlStepsTest : public testing::MySqlEngineTest {};

TEST_F(MySqlStepsTest, Try_Free_IsHeldForItsLease) {
  Holder holder(*engine_, "stock");
  const LockTry step = holder.Try(absl::Seconds(30));
  ASSERT_TRUE(step.status.ok()) << step.status;
  EXPECT_TRUE(step.acquired);
  EXPECT_EQ(step.hold_count, 1);
  EXPECT_EQ(Holds("hold_count"), "1");
  EXPECT_EQ(Value("SELECT token FROM test.stockade_locks"), std::to_string(step.fencing_token.value_or(0)));
  EXPECT_GT(holder.Inspect().remaining, absl::Seconds(20));
  EXPECT_LE(holder.Inspect().remaining, absl::Seconds(30));
}

TEST_F(MySqlStepsTest, Try_HeldByAnother_TellsWhenItLapses) {
  Holder one(*engine_, "stock");
  Holder other(*engine_, "stock");
  ASSERT_TRUE(one.Try(absl::Seconds(30)).acquired);
  const LockTry refused = other.Try(absl::Seconds(60));
  EXPECT_TRUE(refused.status.ok()) << refused.status;
  EXPECT_FALSE(refused.acquired);
  EXPECT_GT(refused.retry_after, absl::Seconds(20));
  EXPECT_LE(refused.retry_after, absl::Seconds(30));
  EXPECT_EQ(HoldRows(), 1);
  EXPECT_LE(one.Inspect().remaining, absl::Seconds(30));
}

TEST_F(MySqlStepsTest, Try_Again_CountsAndNeverShortens) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try(absl::Seconds(60)).acquired);
  EXPECT_EQ(holder.Try(absl::Seconds(1)).hold_count, 2);
  EXPECT_GT(holder.Inspect().remaining, absl::Seconds(50));
  EXPECT_EQ(holder.Try(absl::Seconds(200)).hold_count, 3);
  EXPECT_GT(holder.Inspect().remaining, absl::Seconds(100));
  EXPECT_EQ(holder.Inspect().owner_holds, 3);
}

TEST_F(MySqlStepsTest, Steps_SentTwice_CountOnce) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kRead, LockKind::kWrite}) {
    Holder holder(*engine_, std::string(LockKindName(kind)), kind);
    EXPECT_EQ(holder.Try().hold_count, 1);
    EXPECT_EQ(holder.TryAgain().hold_count, 1);
    EXPECT_EQ(holder.Try().hold_count, 2);
    EXPECT_EQ(holder.TryAgain().hold_count, 2);
    EXPECT_TRUE(holder.Release(1).held);
    EXPECT_TRUE(holder.ReleaseAgain(1).held);
    EXPECT_EQ(holder.Inspect().owner_holds, 1);
    EXPECT_TRUE(holder.Release(0, true).held);
    EXPECT_TRUE(holder.ReleaseAgain(0).held);
    EXPECT_FALSE(holder.Inspect().locked);
    EXPECT_EQ(holder.TryAgain().status.code(), kAborted);
  }
}

TEST_F(MySqlStepsTest, Try_SentTwice_TokenIsNotSmaller) {
  Holder holder(*engine_, "stock");
  const int64_t first = holder.Try().fencing_token.value_or(0);
  EXPECT_GE(holder.TryAgain().fencing_token.value_or(0), first);
  EXPECT_GT(holder.Try().fencing_token.value_or(0), first);
}

TEST_F(MySqlStepsTest, Try_SentTwiceAndForceReleasedBetween_IsRefused) {
  Holder holder(*engine_, "stock");
  holder.Try();
  ASSERT_EQ(holder.Try().hold_count, 2);
  ASSERT_TRUE(engine_->ForceRelease("stock", absl::Seconds(20)).value());
  EXPECT_EQ(holder.TryAgain().status.code(), kAborted);
  EXPECT_EQ(holder.Try().hold_count, 1);
}

TEST_F(MySqlStepsTest, Try_SentTwiceAndLapsedBetween_IsRefusedUntilForgotten) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try(absl::Seconds(30)).acquired);
  Age(absl::Seconds(31));
  EXPECT_EQ(holder.TryAgain().status.code(), kAborted);
  EXPECT_EQ(Holds("hold_count"), "0");
  EXPECT_EQ(holder.Try().hold_count, 1);
}

TEST_F(MySqlStepsTest, Steps_OlderThanTheNewest_AreRefused) {
  Holder holder(*engine_, "stock");
  holder.set_sequence(7);
  ASSERT_TRUE(holder.Try().acquired);
  holder.set_sequence(5);
  EXPECT_EQ(holder.Try().status.code(), kAborted);
  EXPECT_EQ(holder.Release().status.code(), kAborted);
  EXPECT_EQ(holder.Inspect().owner_holds, 1);
  holder.set_sequence(7);
  EXPECT_TRUE(holder.Release().held) << "under the try's own number, as a taking back may be";
}

TEST_F(MySqlStepsTest, Release_TheLast_LeavesNoRow) {
  Holder holder(*engine_, "stock");
  holder.Try();
  holder.Try();
  EXPECT_TRUE(holder.Release(1).held);
  EXPECT_EQ(Holds("hold_count"), "1");
  const LockRelease last = holder.Release(0);
  EXPECT_TRUE(last.status.ok()) << last.status;
  EXPECT_TRUE(last.held);
  EXPECT_EQ(HoldRows(), 0);
}

TEST_F(MySqlStepsTest, Release_ThatLeavesAHold_DoesNotShorten) {
  Holder holder(*engine_, "stock");
  holder.Try(absl::Seconds(60));
  holder.Try(absl::Seconds(1));
  holder.Release(1);
  EXPECT_GT(holder.Inspect().remaining, absl::Seconds(50));
}

TEST_F(MySqlStepsTest, Release_SentTwice_AnswersTheSameAndLeavesTheNewHolderAlone) {
  Holder holder(*engine_, "stock");
  holder.Try();
  EXPECT_TRUE(holder.Release(0).held);
  Holder other(*engine_, "stock");
  ASSERT_TRUE(other.Try().acquired);
  EXPECT_TRUE(holder.ReleaseAgain(0).held);
  EXPECT_TRUE(holder.ReleaseAgain(0).held) << "a third time";
  EXPECT_EQ(other.Inspect().owner_holds, 1);
}

TEST_F(MySqlStepsTest, Release_OfWhatIsLost_SaysSoEachTimeAndLeavesTheNewHolderAlone) {
  Holder holder(*engine_, "stock");
  holder.Try(absl::Seconds(30));
  Age(absl::Seconds(31));
  Holder other(*engine_, "stock");
  ASSERT_TRUE(other.Try().acquired);
  EXPECT_FALSE(holder.Release().held);
  EXPECT_FALSE(holder.ReleaseAgain().held);
  EXPECT_EQ(other.Inspect().owner_holds, 1);
}

TEST_F(MySqlStepsTest, Release_Repeated_RefusesTheTryThatComesLate) {
  Holder holder(*engine_, "stock");
  holder.Try();
  const uint64_t late = holder.sequence() + 1;
  holder.set_sequence(late);
  EXPECT_TRUE(holder.Release(0, true).held);
  EXPECT_EQ(Holds("hold_count"), "0");
  holder.set_sequence(late);
  EXPECT_EQ(holder.TryAgain().status.code(), kAborted);
  EXPECT_FALSE(holder.Inspect().locked);
}

TEST_F(MySqlStepsTest, GiveUp_OfATryThatHasNotRun_RefusesItWhenItComes) {
  Holder holder(*engine_, "stock");
  holder.set_sequence(1);
  const LockRelease given_up = holder.GiveUp();
  EXPECT_TRUE(given_up.status.ok()) << given_up.status;
  EXPECT_FALSE(given_up.held);
  holder.set_sequence(1);
  EXPECT_EQ(holder.TryAgain().status.code(), kAborted);
  EXPECT_FALSE(holder.Inspect().locked);
}

TEST_F(MySqlStepsTest, GiveUp_OfATryThatHasRun_KeepsWhatWasConfirmed) {
  Holder holder(*engine_, "stock");
  holder.Try();
  holder.Try();
  EXPECT_TRUE(holder.GiveUp(1).held);
  EXPECT_EQ(holder.Inspect().owner_holds, 1);
}

TEST_F(MySqlStepsTest, Renew_WhatIsHeld_ProlongsIt_WhatIsNot_DoesNot) {
  Holder holder(*engine_, "stock");
  Holder other(*engine_, "stock");
  holder.Try(absl::Seconds(30));
  EXPECT_TRUE(holder.Renew(absl::Seconds(100)).held);
  EXPECT_GT(holder.Inspect().remaining, absl::Seconds(90));
  EXPECT_TRUE(holder.Renew(absl::Seconds(60)).held);
  EXPECT_LE(holder.Inspect().remaining, absl::Seconds(60));
  holder.set_sequence(holder.sequence() - 1);  // A renewal that does not know of the newest step.
  EXPECT_TRUE(holder.Renew(absl::Seconds(1)).held);
  EXPECT_GT(holder.Inspect().remaining, absl::Seconds(40));
  EXPECT_FALSE(other.Renew(absl::Seconds(300)).held);
  EXPECT_LE(holder.Inspect().remaining, absl::Seconds(100));
}

TEST_F(MySqlStepsTest, Renew_ClockOfTheDatabaseHasSteppedBack_CorrectsTheEnd) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kRead, LockKind::kWrite}) {
    Holder holder(*engine_, "stock", kind);
    ASSERT_TRUE(holder.Try(absl::Seconds(30)).acquired) << LockKindName(kind);
    Age(-absl::Hours(1));
    EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held) << LockKindName(kind);
    EXPECT_LE(holder.Inspect().remaining, absl::Seconds(30)) << LockKindName(kind);
    EXPECT_TRUE(holder.Release().held) << LockKindName(kind);
  }
}

TEST_F(MySqlStepsTest, Renew_OfWhatHasLapsed_DoesNotBringItBack) {
  Holder holder(*engine_, "stock");
  holder.Try(absl::Seconds(30));
  Age(absl::Seconds(31));
  EXPECT_FALSE(holder.Renew(absl::Seconds(30)).held);
  EXPECT_FALSE(holder.Inspect().locked);
}

TEST_F(MySqlStepsTest, Renew_ManyWithOneThatIsGone_RenewsTheOthers) {
  std::vector<LockTry> tries;
  std::vector<LockRenewal> renewals;
  tries.reserve(250);
  renewals.reserve(250);
  for (int i = 0; i < 250; ++i) {
    tries.push_back({.hold = {.name = "stock" + std::to_string(i), .owner = LockOwner::New().id()},
                     .lease = absl::Seconds(30),
                     .sequence = 1,
                     .timeout = absl::Seconds(60)});
    renewals.push_back({.hold = tries.back().hold, .lease = absl::Seconds(100)});
  }
  engine_->TryMany(tries);
  Age(absl::Seconds(31), "stock7");
  engine_->RenewMany(renewals, absl::Seconds(20));
  for (size_t i = 0; i < renewals.size(); ++i) {
    EXPECT_TRUE(tries[i].acquired) << tries[i].status;
    EXPECT_TRUE(renewals[i].status.ok()) << renewals[i].status;
    EXPECT_EQ(renewals[i].held, i != 7) << i;
  }
  EXPECT_EQ(Number("SELECT COUNT(*) FROM test.stockade_lock_holds WHERE expires_at > "
                   "(UNIX_TIMESTAMP(NOW(6)) + 80) * 1000000"),
            249);
}

TEST_F(MySqlStepsTest, Token_GrowsOverForgottenNamesAndAClockThatWasSetBack) {
  Holder holder(*engine_, "stock");
  const int64_t first = holder.Try().fencing_token.value_or(0);
  EXPECT_GE(first, Number("SELECT CAST(UNIX_TIMESTAMP() * 1000000 AS SIGNED) - 60000000"));
  holder.Release();
  server().Query("DELETE FROM test.stockade_locks");
  const int64_t second = holder.Try().fencing_token.value_or(0);
  EXPECT_GT(second, first);
  server().Query("UPDATE test.stockade_locks SET token = token + 3600000000");
  EXPECT_EQ(holder.Try().fencing_token.value_or(0), second + 3'600'000'001);
}

TEST_F(MySqlStepsTest, OthersEnter_OnlyToReadWhileOthersRead) {
  Holder reader(*engine_, "stock", LockKind::kRead);
  Holder other_reader(*engine_, "stock", LockKind::kRead);
  Holder writer(*engine_, "stock", LockKind::kWrite);
  Holder other_writer(*engine_, "stock", LockKind::kWrite);
  EXPECT_TRUE(reader.Try(absl::Seconds(30)).acquired);
  EXPECT_TRUE(other_reader.Try(absl::Seconds(100)).acquired);
  const LockTry refused = writer.Try();
  EXPECT_FALSE(refused.acquired);
  EXPECT_GT(refused.retry_after, absl::Seconds(90)) << "the one who reads the longest is in the way so long";
  reader.Release();
  EXPECT_FALSE(writer.Try().acquired);
  other_reader.Release();
  EXPECT_TRUE(writer.Try().acquired);
  EXPECT_FALSE(reader.Try().acquired);
  EXPECT_FALSE(other_writer.Try().acquired);
  writer.Release();
  EXPECT_TRUE(reader.Try().acquired);
}

TEST_F(MySqlStepsTest, Write_WhileItsOwnerReads_IsBusyUntilThatIsOver) {
  const LockOwner owner = LockOwner::New();
  Holder reader(*engine_, "stock", LockKind::kRead, owner);
  Holder writer(*engine_, "stock", LockKind::kWrite, owner);
  Holder other(*engine_, "stock", LockKind::kRead);
  ASSERT_TRUE(reader.Try(absl::Seconds(30)).acquired);
  ASSERT_TRUE(other.Try(absl::Seconds(10)).acquired);
  const LockTry busy = writer.Try();
  EXPECT_FALSE(busy.acquired);
  EXPECT_GT(busy.retry_after, absl::Seconds(20));
  EXPECT_LE(busy.retry_after, absl::Seconds(30));
  other.Release();
  EXPECT_FALSE(writer.Try().acquired);
  reader.Release();
  EXPECT_TRUE(writer.Try().acquired);
}

TEST_F(MySqlStepsTest, Downgrade_LetsReadersIn) {
  const LockOwner owner = LockOwner::New();
  Holder reader(*engine_, "stock", LockKind::kRead, owner);
  Holder writer(*engine_, "stock", LockKind::kWrite, owner);
  Holder other(*engine_, "stock", LockKind::kRead);
  ASSERT_TRUE(writer.Try().acquired);
  ASSERT_EQ(reader.Try().hold_count, 1);
  EXPECT_EQ(writer.Try().hold_count, 2) << "it writes already";
  EXPECT_FALSE(other.Try().acquired);
  EXPECT_TRUE(writer.Release().held);
  EXPECT_TRUE(other.Try().acquired);
}

TEST_F(MySqlStepsTest, CrashedReader_DoesNotKeepTheWriterOut) {
  Holder crashed(*engine_, "stock", LockKind::kRead);
  Holder writer(*engine_, "stock", LockKind::kWrite);
  crashed.Try(absl::Seconds(30));
  Age(absl::Seconds(31));
  EXPECT_TRUE(writer.Try().acquired);
  EXPECT_FALSE(crashed.Renew(absl::Seconds(30)).held);
}

TEST_F(MySqlStepsTest, Try_OfAnotherFamily_IsRefused) {
  Holder plain(*engine_, "stock");
  Holder reader(*engine_, "stock", LockKind::kRead);
  ASSERT_TRUE(plain.Try().acquired);
  EXPECT_EQ(reader.Try().status.code(), absl::StatusCode::kFailedPrecondition);
  plain.Release();
  EXPECT_TRUE(reader.Try().acquired);
  EXPECT_THAT(std::string(plain.Try().status.message()), HasSubstr("lock 'stock': "));
}

TEST_F(MySqlStepsTest, ForceRelease_TakesItFromReadersAndWriters) {
  const auto force = [this] { return engine_->ForceRelease("stock", absl::Seconds(20)).value(); };
  Holder reader(*engine_, "stock", LockKind::kRead);
  Holder writer(*engine_, "stock", LockKind::kWrite);
  reader.Try();
  EXPECT_TRUE(force());
  EXPECT_FALSE(force());
  EXPECT_TRUE(writer.Try().acquired);
  EXPECT_TRUE(force());
  EXPECT_FALSE(writer.Renew(absl::Seconds(30)).held);
  EXPECT_FALSE(writer.Release().held);
}

TEST_F(MySqlStepsTest, Names_OfAnyBytesAndLengths_AreToldApart) {
  const std::string longest(kMaxLockNameBytes, 'x');
  std::string almost = longest;
  almost.back() = 'y';
  const std::vector<std::string> names = {
      "a",  "A",     "a ",   "'\\\"`;--",           std::string("\0", 1), "\xff\xfe",
      "\n", longest, almost, std::string(255, 'x'), std::string(256, 'x')};
  for (const std::string& name : names) {
    for (const LockKind kind : {LockKind::kRead, LockKind::kWrite}) {
      Holder holder(*engine_, name, kind);
      const LockTry step = holder.Try();
      ASSERT_TRUE(step.status.ok()) << step.status;
      EXPECT_TRUE(step.acquired) << name;
      EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held);
      EXPECT_TRUE(holder.Inspect().locked);
      EXPECT_TRUE(holder.Release().held);
    }
  }
}

TEST_F(MySqlStepsTest, Try_TokenIsTheLargestThereIs_IsRefused) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try().acquired);
  ASSERT_TRUE(holder.Release().held);
  const auto set_token = [](const std::string& token) {
    server().Query("UPDATE test.stockade_locks SET token = " + token);
  };
  set_token("9223372036854775806");
  EXPECT_EQ(holder.Try().fencing_token, 9223372036854775807);
  ASSERT_TRUE(holder.Release().held);
  const absl::Status refused = holder.Try().status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("lock 'stock': its row has the largest fencing token"));
  EXPECT_EQ(Value("SELECT token FROM test.stockade_locks"), "9223372036854775807");
  set_token("-9223372036854775808");
  EXPECT_TRUE(holder.Try().acquired);
}

TEST_F(MySqlStepsTest, EveryCall_RowOfAKindThatNoLockHas_IsRefusedAndChangesNothing) {
  for (const char* const kind : {"-1", "1", "4", "-128", "127"}) {
    SCOPED_TRACE(kind);
    server().Query("DELETE FROM test.stockade_lock_holds");
    Holder holder(*engine_, "stock");
    ASSERT_TRUE(holder.Try().acquired);
    ASSERT_TRUE(holder.Release().held);
    server().Query(std::string("INSERT INTO test.stockade_lock_holds (name, kind, owner, hold_count, expires_at, "
                               "sequence, newest_step) VALUES ('stock', ") +
                   kind + ", 'somebody', 1, 9000000000000000, 1, 0)");
    const std::string before = Holds("GROUP_CONCAT(kind, hold_count, expires_at)");
    const absl::Status freed = engine_->ForceRelease("stock", absl::Seconds(20)).status();
    EXPECT_EQ(freed.code(), absl::StatusCode::kFailedPrecondition) << freed;
    EXPECT_THAT(std::string(freed.message()),
                HasSubstr(std::string("lock 'stock': the table of holds has a row of kind ") + kind));
    EXPECT_EQ(engine_->Inspect("stock", 1, absl::Seconds(20)).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(holder.Try().status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(Holds("GROUP_CONCAT(kind, hold_count, expires_at)"), before);
  }
}

}  // namespace
}  // namespace stockade
