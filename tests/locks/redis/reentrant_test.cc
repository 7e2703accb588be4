// What the scripts of the reentrant lock leave behind, looked at by another connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "locks/redis/redis_engine_fixture.h"
#include "redis/support/ear.h"

namespace stockade {
namespace {

using ::testing::HasSubstr;
using testing::Holder;

class RedisReentrantTest : public testing::RedisEngineTest {};

TEST_F(RedisReentrantTest, Try_Free_IsHeldAsRedissonHoldsIt) {
  Holder holder(*engine_, "stock");
  const LockTry step = holder.Try(absl::Seconds(30));
  ASSERT_TRUE(step.status.ok()) << step.status;
  EXPECT_TRUE(step.acquired);
  EXPECT_EQ(step.hold_count, 1);
  EXPECT_EQ(Call({"HGETALL", "stock"}).items.size(), 2u);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "1");
  EXPECT_GT(Number({"PTTL", "stock"}), 20'000);
  EXPECT_LE(Number({"PTTL", "stock"}), 30'000);
  EXPECT_EQ(Call({"GET", "redisson_lock_token:{stock}"}), std::to_string(step.fencing_token.value_or(0)));
}

TEST_F(RedisReentrantTest, Try_HeldByAnother_TellsWhenItLapses) {
  Holder one(*engine_, "stock");
  Holder other(*engine_, "stock");
  ASSERT_TRUE(one.Try(absl::Seconds(30)).acquired);
  const LockTry refused = other.Try(absl::Seconds(60));
  EXPECT_TRUE(refused.status.ok()) << refused.status;
  EXPECT_FALSE(refused.acquired);
  EXPECT_GT(refused.retry_after, absl::Seconds(20));
  EXPECT_LE(refused.retry_after, absl::Seconds(30));
  EXPECT_LE(Number({"PTTL", "stock"}), 30'000);
  EXPECT_EQ(Number({"EXISTS", RecordOf(other)}), 0);
}

TEST_F(RedisReentrantTest, Try_Again_CountsAndNeverShortens) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try(absl::Seconds(60)).acquired);
  EXPECT_EQ(holder.Try(absl::Seconds(1)).hold_count, 2);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "2");
  EXPECT_GT(Number({"PTTL", "stock"}), 50'000);
  EXPECT_EQ(holder.Try(absl::Seconds(200)).hold_count, 3);
  EXPECT_GT(Number({"PTTL", "stock"}), 100'000);
}

TEST_F(RedisReentrantTest, Try_SentTwice_CountsOnce) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try().acquired);
  EXPECT_EQ(holder.TryAgain().hold_count, 1);
  EXPECT_EQ(holder.Try().hold_count, 2);
  EXPECT_EQ(holder.TryAgain().hold_count, 2);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "2");
}

TEST_F(RedisReentrantTest, Try_SentTwiceAndLostBetween_IsRefused) {
  Holder holder(*engine_, "stock");
  holder.Try();
  ASSERT_EQ(holder.Try().hold_count, 2);
  Call({"DEL", "stock"});
  EXPECT_EQ(holder.TryAgain().status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(holder.Try().hold_count, 1);
}

TEST_F(RedisReentrantTest, Try_OlderThanTheNewestStep_IsRefused) {
  Holder holder(*engine_, "stock");
  holder.set_sequence(7);
  ASSERT_TRUE(holder.Try().acquired);
  holder.set_sequence(5);
  EXPECT_EQ(holder.Try().status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "1");
  EXPECT_EQ(holder.Release().status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "1");
}

TEST_F(RedisReentrantTest, Release_TheLast_LeavesNothingAndPublishes) {
  testing::Ear ear;
  std::unique_ptr<RedisClient> redis = RedisClient::Connect(server_->url()).value();
  const RedisSubscription subscription = redis->Subscribe("redisson_lock__channel:{stock}", ear.subscriber()).value();
  ASSERT_TRUE(ear.AwaitConfirmations(1));
  Holder holder(*engine_, "stock");
  holder.Try();
  holder.Try();
  EXPECT_TRUE(holder.Release(1).held);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "1");
  const LockRelease last = holder.Release(0);
  EXPECT_TRUE(last.status.ok()) << last.status;
  EXPECT_TRUE(last.held);
  EXPECT_EQ(Number({"EXISTS", "stock", RecordOf(holder)}), 0);
  ASSERT_TRUE(ear.AwaitMessages(1));
  EXPECT_THAT(ear.heard(), ::testing::ElementsAre("0"));
}

TEST_F(RedisReentrantTest, Release_ThatLeavesAHold_DoesNotShorten) {
  Holder holder(*engine_, "stock");
  holder.Try(absl::Seconds(60));
  holder.Try(absl::Seconds(1));
  holder.Release(1);
  EXPECT_GT(Number({"PTTL", "stock"}), 50'000);
}

TEST_F(RedisReentrantTest, Release_SentTwice_AnswersTheSame) {
  Holder holder(*engine_, "stock");
  holder.Try();
  holder.Try();
  EXPECT_TRUE(holder.Release(1).held);
  EXPECT_TRUE(holder.ReleaseAgain(1).held);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "1");
  EXPECT_TRUE(holder.Release(0).held);
  Holder other(*engine_, "stock");
  ASSERT_TRUE(other.Try().acquired);
  EXPECT_TRUE(holder.ReleaseAgain(0).held);
  EXPECT_TRUE(holder.ReleaseAgain(0).held) << "a third time";
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(other)}), "1");
}

TEST_F(RedisReentrantTest, Release_OfWhatIsLost_SaysSoEachTimeAndLeavesTheNewHolderAlone) {
  Holder holder(*engine_, "stock");
  holder.Try();
  Call({"DEL", "stock"});
  Holder other(*engine_, "stock");
  ASSERT_TRUE(other.Try().acquired);
  EXPECT_FALSE(holder.Release().held);
  EXPECT_FALSE(holder.ReleaseAgain().held);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(other)}), "1");
}

TEST_F(RedisReentrantTest, Release_Repeated_RefusesTheTryThatComesLate) {
  Holder holder(*engine_, "stock");
  holder.Try();
  const uint64_t late = holder.sequence() + 1;
  holder.set_sequence(late);
  EXPECT_TRUE(holder.Release(0, true).held);
  EXPECT_GT(Number({"PTTL", RecordOf(holder)}), 10'000);
  holder.set_sequence(late);
  EXPECT_EQ(holder.TryAgain().status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Number({"EXISTS", "stock"}), 0);
}

TEST_F(RedisReentrantTest, GiveUp_OfATryThatHasNotRun_RefusesItWhenItComes) {
  Holder holder(*engine_, "stock");
  holder.set_sequence(1);
  const LockRelease given_up = holder.GiveUp();
  EXPECT_TRUE(given_up.status.ok()) << given_up.status;
  EXPECT_FALSE(given_up.held);
  holder.set_sequence(1);
  EXPECT_EQ(holder.TryAgain().status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Number({"EXISTS", "stock"}), 0);
}

TEST_F(RedisReentrantTest, GiveUp_OfATryThatHasRun_KeepsWhatWasConfirmed) {
  Holder holder(*engine_, "stock");
  holder.Try();
  holder.Try();
  EXPECT_TRUE(holder.GiveUp(1).held);
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "1");
}

TEST_F(RedisReentrantTest, Renew_WhatIsHeld_ProlongsIt_WhatIsNot_DoesNot) {
  Holder holder(*engine_, "stock");
  Holder other(*engine_, "stock");
  holder.Try(absl::Seconds(30));
  EXPECT_TRUE(holder.Renew(absl::Seconds(100)).held);
  EXPECT_GT(Number({"PTTL", "stock"}), 90'000);
  EXPECT_GT(Number({"PTTL", RecordOf(holder)}), 110'000);
  EXPECT_TRUE(holder.Renew(absl::Seconds(50)).held);
  EXPECT_LE(Number({"PTTL", "stock"}), 50'000);
  holder.set_sequence(holder.sequence() - 1);  // A renewal that does not know of the newest step.
  EXPECT_TRUE(holder.Renew(absl::Seconds(1)).held);
  EXPECT_GT(Number({"PTTL", "stock"}), 30'000);
  EXPECT_FALSE(other.Renew(absl::Seconds(300)).held);
  EXPECT_LE(Number({"PTTL", "stock"}), 100'000);
}

TEST_F(RedisReentrantTest, Renew_ManyWithOneThatIsNoLockAnyMore_RenewsTheOthers) {
  std::vector<LockRenewal> renewals;
  for (int i = 0; i < 250; ++i) {
    Holder holder(*engine_, "stock" + std::to_string(i));
    ASSERT_TRUE(holder.Try(absl::Seconds(30)).acquired);
    renewals.push_back({.hold = holder.hold(), .lease = absl::Seconds(100)});
  }
  Call({"SET", "stock7", "no lock"});
  engine_->RenewMany(renewals, absl::Seconds(20));
  for (size_t i = 0; i < renewals.size(); ++i) {
    ASSERT_TRUE(renewals[i].status.ok()) << renewals[i].status;
    EXPECT_EQ(renewals[i].held, i != 7);
    if (i != 7) {
      EXPECT_GT(Number({"PTTL", renewals[i].hold.name}), 80'000) << i;
    }
  }
}

TEST_F(RedisReentrantTest, Token_GrowsWithEachAcquireAndOverAnEmptiedServer) {
  Holder holder(*engine_, "stock");
  int64_t newest = 0;
  for (int i = 0; i < 4; ++i) {
    const std::optional<int64_t> token = holder.Try().fencing_token;
    ASSERT_TRUE(token.has_value());
    EXPECT_GT(*token, newest);
    newest = *token;
    if (i == 2) Call({"FLUSHALL"});
  }
}

TEST_F(RedisReentrantTest, Token_OfACounterAheadOfTheClock_IsTheNextOne) {
  Call({"SET", "redisson_lock_token:{stock}", "8000000000000000"});
  Holder holder(*engine_, "stock");
  EXPECT_EQ(holder.Try().fencing_token, 8'000'000'000'000'001);
  EXPECT_EQ(Number({"INCR", "redisson_lock_token:{stock}"}), 8'000'000'000'000'002);
  EXPECT_EQ(holder.Try().fencing_token, 8'000'000'000'000'003);
}

TEST_F(RedisReentrantTest, Token_NoLargerOneIsExact_IsRefusedWithTheKey) {
  for (const char* const newest : {"9007199254740991", "9007199254740993", "9223372036854775807"}) {
    Call({"SET", "redisson_lock_token:{stock}", newest});
    for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
      Holder holder(*engine_, "stock", kind);
      const LockTry refused = holder.Try();
      EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition) << newest << ", " << LockKindName(kind);
      EXPECT_THAT(std::string(refused.status.message()), HasSubstr("redisson_lock_token:{stock}"));
      EXPECT_EQ(Number({"EXISTS", "stock"}), 0) << newest << ", " << LockKindName(kind);
    }
  }
}

TEST_F(RedisReentrantTest, Release_CountIsNoNumber_SaysThatItIsNotHeld) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    Holder holder(*engine_, "stock", kind);
    ASSERT_TRUE(holder.Try().acquired) << LockKindName(kind);
    Call({"HSET", "stock", FieldOf(holder), "abc"});
    const LockRelease release = holder.Release();
    EXPECT_TRUE(release.status.ok()) << LockKindName(kind) << ": " << release.status;
    EXPECT_FALSE(release.held) << LockKindName(kind);
    Call({"FLUSHALL"});
  }
}

TEST_F(RedisReentrantTest, TokenRetention_IsThatOfTheKey) {
  Holder holder(*engine_, "stock");
  holder.Try();
  EXPECT_GT(Number({"PTTL", "redisson_lock_token:{stock}"}), 86'000'000);
  const auto for_ever = testing::EngineOn(server_->url(), {.token_retention = absl::InfiniteDuration()});
  Holder other(*for_ever, "order");
  other.Try();
  EXPECT_EQ(Number({"PTTL", "redisson_lock_token:{order}"}), -1);
}

// Other clients of the protocol need not name themselves by a UUID.
TEST_F(RedisReentrantTest, Try_HeldByAClientOfAnotherName_IsBusy) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    const bool writes = kind == LockKind::kRead || kind == LockKind::kWrite;
    if (writes) {
      Call({"HSET", "stock", "mode", "write", "somebody:1:write", "1"});
    } else {
      Call({"HSET", "stock", "somebody:1", "1"});
    }
    const LockTry busy = Holder(*engine_, "stock", kind).Try();
    EXPECT_TRUE(busy.status.ok()) << LockKindName(kind) << ": " << busy.status;
    EXPECT_FALSE(busy.acquired) << LockKindName(kind);
    Call({"FLUSHALL"});
  }
}

TEST_F(RedisReentrantTest, Try_OfAReadWriteLock_IsRefusedWithItsName) {
  Holder writer(*engine_, "stock", LockKind::kWrite);
  ASSERT_TRUE(writer.Try().acquired);
  Holder holder(*engine_, "stock");
  const LockTry refused = holder.Try();
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("lock 'stock': held as another kind"));
}

TEST_F(RedisReentrantTest, Try_OfAKeyThatIsNoLock_IsRefusedWithItsName) {
  Call({"SET", "stock", "12"});
  Holder holder(*engine_, "stock");
  const LockTry refused = holder.Try();
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(refused.outcome_unknown);
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("lock 'stock': "));
  EXPECT_EQ(Call({"GET", "stock"}), "12");
}

TEST_F(RedisReentrantTest, Names_WithBracesAndAnyBytes_AreKeptApart) {
  const std::string binary("a\0\r\n\xff", 5);
  for (const std::string& name : {std::string("{tag}stock"), std::string("a{b"), std::string("a}b"), binary}) {
    Holder holder(*engine_, name);
    Holder other(*engine_, name);
    EXPECT_TRUE(holder.Try().acquired);
    EXPECT_FALSE(other.Try().acquired);
    EXPECT_EQ(Call({"HGET", name, FieldOf(holder)}), "1");
    EXPECT_TRUE(holder.Release().held);
  }
  EXPECT_EQ(Number({"EXISTS", "redisson_lock_token:{tag}stock", "redisson_lock_token:{a}b}"}), 2);
}

TEST_F(RedisReentrantTest, Inspect_OfOneHeldAndOneFree) {
  Holder holder(*engine_, "stock");
  Holder other(*engine_, "stock");
  EXPECT_FALSE(holder.Inspect().locked);
  holder.Try(absl::Seconds(30));
  holder.Try(absl::Seconds(30));
  EXPECT_TRUE(holder.Inspect().locked);
  EXPECT_EQ(holder.Inspect().owner_holds, 2);
  EXPECT_GT(holder.Inspect().remaining, absl::Seconds(20));
  EXPECT_TRUE(other.Inspect().locked);
  EXPECT_EQ(other.Inspect().owner_holds, 0);
}

TEST_F(RedisReentrantTest, Release_RedisIsOutOfMemory_Passes) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    Holder holder(*engine_, "stock", kind);
    ASSERT_TRUE(holder.Try().acquired);
    ASSERT_TRUE(holder.Try().acquired);
    Call({"CONFIG", "SET", "maxmemory", "1"});
    EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held) << LockKindName(kind);
    for (const int64_t keep : {1, 0}) {
      const LockRelease release = holder.Release(keep, true);
      EXPECT_TRUE(release.status.ok()) << LockKindName(kind) << ", keep " << keep << ": " << release.status;
      EXPECT_TRUE(release.held) << LockKindName(kind) << ", keep " << keep;
    }
    EXPECT_EQ(Number({"EXISTS", "stock"}), 0) << LockKindName(kind);
    Call({"CONFIG", "SET", "maxmemory", "0"});
  }
}

TEST_F(RedisReentrantTest, ForceRelease_TakesItAwayOnce) {
  Holder holder(*engine_, "stock");
  holder.Try();
  const auto force = [this] { return engine_->ForceRelease("stock", absl::Seconds(20)).value(); };
  EXPECT_TRUE(force());
  EXPECT_FALSE(force());
  EXPECT_FALSE(holder.Renew(absl::Seconds(30)).held);
}

TEST_F(RedisReentrantTest, TryMany_AllAtOnce_EachHasItsAnswer) {
  Holder other(*engine_, "b");
  ASSERT_TRUE(other.Try().acquired);
  std::vector<LockTry> tries;
  for (const char* const name : {"a", "b", "c"}) {
    tries.push_back({.hold = {.name = name, .owner = LockOwner::New().id()},
                     .lease = absl::Seconds(30),
                     .sequence = 1,
                     .timeout = absl::Seconds(20)});
  }
  engine_->TryMany(tries);
  EXPECT_TRUE(tries[0].acquired);
  EXPECT_FALSE(tries[1].acquired);
  EXPECT_TRUE(tries[2].acquired);
}

TEST_F(RedisReentrantTest, Try_ServerAway_IsUnavailableInTimeAndNamesTheLock) {
  Holder holder(*engine_, "stock");
  server_->Kill();
  LockTry step = {.hold = holder.hold(), .lease = absl::Seconds(30), .sequence = 1, .timeout = absl::Milliseconds(200)};
  engine_->TryMany({&step, 1});
  EXPECT_EQ(step.status.code(), absl::StatusCode::kUnavailable) << step.status;
  EXPECT_THAT(std::string(step.status.message()), HasSubstr("lock 'stock': "));
}

TEST_F(RedisReentrantTest, Try_NoReply_OutcomeIsUnknown) {
  Holder holder(*engine_, "stock");
  server_->Pause();
  LockTry step = {.hold = holder.hold(), .lease = absl::Seconds(30), .sequence = 1, .timeout = absl::Seconds(1)};
  engine_->TryMany({&step, 1});
  EXPECT_EQ(step.status.code(), absl::StatusCode::kUnavailable) << step.status;
  EXPECT_TRUE(step.outcome_unknown);
  server_->Resume();
}

TEST_F(RedisReentrantTest, Watch_HearsTheSubscriptionAndEachRelease) {
  testing::Ear ear;
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try().acquired);
  const std::unique_ptr<LockWatch> watch = holder.Hear(HintTo(ear));
  ASSERT_TRUE(ear.AwaitMessages(1));
  holder.Release();
  EXPECT_TRUE(ear.AwaitMessages(2));
}

TEST_F(RedisReentrantTest, Id_HasTheServerAndNoPassword) {
  EXPECT_EQ(engine_->id(), "redis 127.0.0.1:" + std::to_string(server_->port()) + "/0");
  Call({"CONFIG", "SET", "requirepass", "secret"});
  const std::string url = "redis://:secret@127.0.0.1:" + std::to_string(server_->port()) + "/3";
  EXPECT_EQ(testing::EngineOn(url)->id(), "redis 127.0.0.1:" + std::to_string(server_->port()) + "/3");
}

}  // namespace
}  // namespace stockade
