// What the scripts of the fair lock leave behind, looked at by another connection; Redisson's waiters are put into the
// queue by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "locks/redis/redis_engine_fixture.h"
#include "redis/support/ear.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using testing::Holder;

constexpr char kQueue[] = "redisson_lock_queue:{stock}";
constexpr char kTimes[] = "redisson_lock_timeout:{stock}";
// As a Redisson client names itself and its thread: a UUID of version 4.
constexpr char kJava[] = "0f8fad5b-d9cb-469f-a165-70867728950e:42";
constexpr char kOtherJava[] = "7c9e6679-7425-40de-944b-e07fc1f90ae7:43";

class RedisFairTest : public testing::RedisEngineTest {
 protected:
  Holder Waiter() { return Holder(*engine_, "stock", LockKind::kFair); }
  std::vector<std::string> Queued() const {
    std::vector<std::string> queued;
    for (const testing::RawReply& item : Call({"LRANGE", kQueue, "0", "-1"}).items) queued.push_back(item.text);
    return queued;
  }
  int64_t Now() const {
    const testing::RawReply time = Call({"TIME"});
    return std::stoll(time.items[0].text) * 1000 + std::stoll(time.items[1].text) / 1000;
  }
  // Until the waiter is taken for dead.
  int64_t Left(const std::string& holder) const {
    const testing::RawReply score = Call({"ZSCORE", kTimes, holder});
    return score.type == '_' ? -1 : std::stoll(score.text) - Now();
  }
  void Plant(const std::string& holder, int64_t left_ms) const {
    Call({"RPUSH", kQueue, holder});
    SetLeft(holder, left_ms);
  }
  void SetLeft(const std::string& holder, int64_t left_ms) const {
    Call({"ZADD", kTimes, std::to_string(Now() + left_ms), holder});
  }
};

TEST_F(RedisFairTest, Try_Free_IsHeldAsRedissonHoldsIt_AndQueuesNobody) {
  Holder holder = Waiter();
  const LockTry step = holder.Queue();
  EXPECT_TRUE(step.acquired);
  EXPECT_TRUE(step.fencing_token.has_value());
  EXPECT_EQ(Call({"HGET", "stock", FieldOf(holder)}), "1");
  EXPECT_EQ(Number({"EXISTS", kQueue, kTimes}), 0);
  EXPECT_EQ(holder.Queue().hold_count, 2);
  EXPECT_EQ(holder.TryAgain().hold_count, 2);
}

TEST_F(RedisFairTest, Queue_Held_EntersInTheOrderOfArrival) {
  Holder holder = Waiter();
  Holder first = Waiter();
  Holder second = Waiter();
  ASSERT_TRUE(holder.Queue().acquired);
  EXPECT_FALSE(first.Queue().acquired);
  EXPECT_FALSE(second.Queue().acquired);
  EXPECT_FALSE(first.Queue().acquired);
  EXPECT_THAT(Queued(), ::testing::ElementsAre(FieldOf(first), FieldOf(second)));
  EXPECT_GT(Left(FieldOf(first)), 1'000);
  EXPECT_LE(Left(FieldOf(first)), 3'000);
  EXPECT_TRUE(holder.Release().held);
  EXPECT_FALSE(second.Queue().acquired);
  EXPECT_FALSE(holder.Queue().acquired);
  EXPECT_TRUE(first.Queue().acquired);
  EXPECT_THAT(Queued(), ::testing::ElementsAre(FieldOf(second), FieldOf(holder)));
  EXPECT_TRUE(first.Release().held);
  EXPECT_FALSE(holder.Queue().acquired);
  EXPECT_TRUE(second.Queue().acquired);
  EXPECT_TRUE(second.Release().held);
  EXPECT_TRUE(holder.Queue().acquired);
  EXPECT_EQ(Number({"EXISTS", kQueue, kTimes}), 0);
}

TEST_F(RedisFairTest, Queue_RetriesSoonEnoughToKeepItsPlace_AndNotInALoop) {
  Holder holder = Waiter();
  Holder first = Waiter();
  Holder second = Waiter();
  ASSERT_TRUE(holder.Queue(absl::Seconds(30)).acquired);
  EXPECT_EQ(first.Queue().retry_after, absl::Milliseconds(750));
  EXPECT_EQ(second.Queue().retry_after, absl::Milliseconds(750));
  holder.Release();
  const LockTry behind = second.Queue();
  EXPECT_FALSE(behind.acquired);
  EXPECT_GE(behind.retry_after, absl::Milliseconds(100));
  EXPECT_LE(behind.retry_after, absl::Milliseconds(750));
}

TEST_F(RedisFairTest, TryOnce_NeverQueuesAndNeverPassesTheLiving) {
  Holder holder = Waiter();
  Holder waiter = Waiter();
  Holder passer = Waiter();
  ASSERT_TRUE(holder.Try().acquired);
  EXPECT_FALSE(passer.Try().acquired);
  EXPECT_EQ(Number({"EXISTS", kQueue, kTimes}), 0);
  ASSERT_FALSE(waiter.Queue().acquired);
  holder.Release();
  EXPECT_FALSE(passer.Try().acquired);
  EXPECT_THAT(Queued(), ::testing::ElementsAre(FieldOf(waiter)));
  EXPECT_TRUE(waiter.Try().acquired);
}

TEST_F(RedisFairTest, Release_WakesTheHeadAlone) {
  testing::Ear first_ear;
  testing::Ear second_ear;
  Holder holder = Waiter();
  Holder first = Waiter();
  Holder second = Waiter();
  std::unique_ptr<RedisClient> redis = RedisClient::Connect(server_->url()).value();
  const std::string channel = "redisson_lock__channel:{stock}:";
  const RedisSubscription one = redis->Subscribe(channel + FieldOf(first), first_ear.subscriber()).value();
  const RedisSubscription two = redis->Subscribe(channel + FieldOf(second), second_ear.subscriber()).value();
  ASSERT_TRUE(first_ear.AwaitConfirmations(1) && second_ear.AwaitConfirmations(1));
  holder.Queue();
  first.Queue();
  second.Queue();
  holder.Release();
  ASSERT_TRUE(first_ear.AwaitMessages(1));
  EXPECT_TRUE(second_ear.heard().empty());
  ASSERT_TRUE(first.Queue().acquired);
  first.Release();
  ASSERT_TRUE(second_ear.AwaitMessages(1));
  EXPECT_THAT(first_ear.heard(), ::testing::ElementsAre("0"));
}

TEST_F(RedisFairTest, Watch_HearsThatItsTurnHasCome) {
  testing::Ear ear;
  Holder holder = Waiter();
  Holder waiter = Waiter();
  holder.Queue();
  waiter.Queue();
  const std::unique_ptr<LockWatch> watch = waiter.Hear(HintTo(ear));
  ASSERT_TRUE(ear.AwaitMessages(1));
  holder.Release();
  EXPECT_TRUE(ear.AwaitMessages(2));
}

TEST_F(RedisFairTest, GiveUp_LeavesTheQueueAndWakesTheNext) {
  testing::Ear ear;
  Holder holder = Waiter();
  Holder first = Waiter();
  Holder second = Waiter();
  holder.Queue();
  first.Queue();
  second.Queue();
  const std::unique_ptr<LockWatch> watch = second.Hear(HintTo(ear));
  ASSERT_TRUE(ear.AwaitMessages(1));
  holder.Release();
  EXPECT_FALSE(first.GiveUp().held);
  EXPECT_THAT(Queued(), ::testing::ElementsAre(FieldOf(second)));
  EXPECT_EQ(Left(FieldOf(first)), -1);
  EXPECT_TRUE(ear.AwaitMessages(2));
  EXPECT_TRUE(second.Queue().acquired);
}

TEST_F(RedisFairTest, GiveUp_OfATryThatComesLater_RefusesIt) {
  Holder holder = Waiter();
  Holder waiter = Waiter();
  holder.Queue();
  waiter.set_sequence(1);
  waiter.GiveUp();
  waiter.set_sequence(1);
  EXPECT_EQ(waiter.TryAgain(absl::Seconds(30), true).status.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Queued().empty());
}

TEST_F(RedisFairTest, GiveUp_OfTheOwnersOtherExclusiveKind_DoesNotChangeTheKind) {
  for (const LockKind kind : {LockKind::kFair, LockKind::kReentrant}) {
    Holder holder(*engine_, "stock", kind);
    Holder other(*engine_, "stock", kind == LockKind::kFair ? LockKind::kReentrant : LockKind::kFair,
                 LockOwner(holder.hold().owner));
    ASSERT_TRUE(holder.Try().acquired);
    other.set_sequence(holder.sequence());
    EXPECT_TRUE(other.GiveUp(1).held);
    EXPECT_EQ(holder.Inspect().kind, kind);
    holder.set_sequence(other.sequence());
    EXPECT_TRUE(holder.Release().held);
  }
}

TEST_F(RedisFairTest, DeadHead_IsDroppedOnceItsTimeIsOver) {
  Holder holder = Waiter();
  Holder dead = Waiter();
  Holder waiter = Waiter();
  holder.Queue();
  dead.Queue();
  waiter.Queue();
  holder.Release();
  EXPECT_FALSE(waiter.Queue().acquired);
  SetLeft(FieldOf(dead), -1);
  EXPECT_TRUE(waiter.Queue().acquired);
  EXPECT_TRUE(Queued().empty());
  EXPECT_EQ(Left(FieldOf(dead)), -1);
}

TEST_F(RedisFairTest, DeadHead_DoesNotGetTheReleasesMessage) {
  testing::Ear ear;
  Holder holder = Waiter();
  Holder dead = Waiter();
  Holder waiter = Waiter();
  holder.Queue();
  dead.Queue();
  waiter.Queue();
  const std::unique_ptr<LockWatch> watch = waiter.Hear(HintTo(ear));
  ASSERT_TRUE(ear.AwaitMessages(1));
  SetLeft(FieldOf(dead), -1);
  holder.Release();
  EXPECT_TRUE(ear.AwaitMessages(2));
  EXPECT_THAT(Queued(), ::testing::ElementsAre(FieldOf(waiter)));
}

TEST_F(RedisFairTest, StaleButAlive_KeepsItsPlace) {
  Holder holder = Waiter();
  Holder waiter = Waiter();
  Holder behind = Waiter();
  holder.Queue();
  waiter.Queue();
  behind.Queue();
  SetLeft(FieldOf(waiter), -1'000);
  EXPECT_FALSE(waiter.Queue().acquired);
  EXPECT_THAT(Queued(), ::testing::ElementsAre(FieldOf(waiter), FieldOf(behind)));
  EXPECT_GT(Left(FieldOf(waiter)), 1'000);
}

TEST_F(RedisFairTest, BehindRedisson_ItsTimeHasWhatTheyWillTakeOff) {
  Holder holder = Waiter();
  Holder waiter = Waiter();
  holder.Queue();
  Plant(kJava, 300'000);
  Plant(kOtherJava, 600'000);
  waiter.Queue();
  EXPECT_GT(Left(FieldOf(waiter)), 600'000);
  EXPECT_LE(Left(FieldOf(waiter)), 603'000);
}

TEST_F(RedisFairTest, Entering_TakesItsWaitOffTheOthers_NotBelowWhatTheyNeed) {
  Holder holder = Waiter();
  Holder waiter = Waiter();
  Holder behind = Waiter();
  holder.Queue();
  waiter.Queue();
  behind.Queue();
  Plant(kJava, 303'000);
  Plant(kOtherJava, 4'000);
  holder.Release();
  const int64_t before = Left(FieldOf(behind));
  ASSERT_TRUE(waiter.Queue().acquired);
  EXPECT_LE(Left(kJava), 300'000);
  EXPECT_GT(Left(kJava), 290'000);
  EXPECT_LE(Left(kOtherJava), 3'000);
  EXPECT_GT(Left(kOtherJava), 0);
  EXPECT_LE(Left(FieldOf(behind)), before);
}

TEST_F(RedisFairTest, Entering_LeavesStockadesWaitersTheTimeThatRedissonWillTakeOff) {
  Holder holder = Waiter();
  Holder waiter = Waiter();
  Holder behind = Waiter();
  holder.Queue();
  waiter.Queue();
  Plant(kJava, 303'000);
  behind.Queue();
  holder.Release();
  const std::string before = Call({"ZSCORE", kTimes, FieldOf(behind)}).text;
  ASSERT_TRUE(waiter.Queue().acquired);
  EXPECT_EQ(Call({"ZSCORE", kTimes, FieldOf(behind)}), before);
}

TEST_F(RedisFairTest, DeadRedissonHead_IsToldOnceAndDroppedThreeSecondsLater) {
  testing::Ear ear;
  std::unique_ptr<RedisClient> redis = RedisClient::Connect(server_->url()).value();
  const RedisSubscription subscription =
      redis->Subscribe(std::string("redisson_lock__channel:{stock}:") + kJava, ear.subscriber()).value();
  ASSERT_TRUE(ear.AwaitConfirmations(1));
  Plant(kJava, 330'000);
  Holder waiter = Waiter();
  const auto told = std::chrono::steady_clock::now();
  EXPECT_FALSE(waiter.Queue().acquired);
  Holder other = Waiter();
  EXPECT_FALSE(other.Queue().acquired);
  Await("the lock behind a dead waiter", [&] {
    const LockTry step = waiter.Queue();
    EXPECT_TRUE(step.acquired || step.retry_after >= absl::Milliseconds(100));
    return step.acquired;
  });
  EXPECT_GE(std::chrono::steady_clock::now() - told, std::chrono::milliseconds(2'900));
  EXPECT_THAT(Queued(), ::testing::ElementsAre(FieldOf(other)));
  EXPECT_EQ(Left(kJava), -1);
  ASSERT_TRUE(ear.AwaitMessages(1));
  EXPECT_THAT(ear.heard(), ::testing::ElementsAre("0"));
}

TEST_F(RedisFairTest, RedissonHeadThatCameAgain_HasItsTimeAnew) {
  Plant(kJava, 330'000);
  Holder waiter = Waiter();
  ASSERT_FALSE(waiter.Queue().acquired);
  // Long ago, and of another wait: its time was another.
  const std::string note = Call({"GET", "{stock}:stockade:head"}).text;
  Call({"SET", "{stock}:stockade:head", std::to_string(Now() - 9'000) + note.substr(note.find(' '))});
  SetLeft(kJava, 340'000);
  EXPECT_FALSE(waiter.Queue().acquired);
  EXPECT_THAT(Queued(), ::testing::ElementsAre(kJava, FieldOf(waiter)));
}

TEST_F(RedisFairTest, RedissonHead_WhileTheLockIsHeld_IsLeftAlone) {
  Holder holder = Waiter();
  Holder waiter = Waiter();
  holder.Queue();
  Plant(kJava, 330'000);
  waiter.Queue();
  EXPECT_EQ(Number({"EXISTS", "{stock}:stockade:head"}), 0);
}

TEST_F(RedisFairTest, LongQueue_WhoeverIsFarBehindKeepsItsPlace) {
  Holder holder = Waiter();
  holder.Queue();
  std::vector<Holder> waiters;
  for (int i = 0; i < 120; ++i) {
    waiters.push_back(Waiter());
    waiters.back().Queue();
  }
  SetLeft(FieldOf(waiters.back()), -1);
  EXPECT_FALSE(waiters.back().Queue().acquired);
  EXPECT_EQ(Queued().size(), 120u);
  EXPECT_GT(Left(FieldOf(waiters.back())), 0);
}

TEST_F(RedisFairTest, Try_OfAReadWriteLock_IsRefused) {
  Holder reader(*engine_, "stock", LockKind::kRead);
  ASSERT_TRUE(reader.Try().acquired);
  EXPECT_EQ(Waiter().Queue().status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Queued().empty());
}

TEST_F(RedisFairTest, Release_NobodyIsQueued_NotifiesThoseThatWaitForItAsReentrant) {
  testing::Ear ear;
  std::unique_ptr<RedisClient> redis = RedisClient::Connect(server_->url()).value();
  const RedisSubscription subscription = redis->Subscribe("redisson_lock__channel:{stock}", ear.subscriber()).value();
  ASSERT_TRUE(ear.AwaitConfirmations(1));
  Holder holder = Waiter();
  ASSERT_TRUE(holder.Queue().acquired);
  EXPECT_TRUE(holder.Release().held);
  ASSERT_TRUE(ear.AwaitMessages(1));
  EXPECT_THAT(ear.heard(), ::testing::ElementsAre("0"));
}

TEST_F(RedisFairTest, ForceRelease_WakesTheHead) {
  testing::Ear ear;
  Holder holder = Waiter();
  Holder waiter = Waiter();
  holder.Queue();
  waiter.Queue();
  const std::unique_ptr<LockWatch> watch = waiter.Hear(HintTo(ear));
  ASSERT_TRUE(ear.AwaitMessages(1));
  EXPECT_TRUE(engine_->ForceRelease("stock", absl::Seconds(20)).value());
  EXPECT_TRUE(ear.AwaitMessages(2));
  EXPECT_FALSE(engine_->ForceRelease("stock", absl::Seconds(20)).value());
  EXPECT_FALSE(holder.Release().held);
  EXPECT_TRUE(waiter.Queue().acquired);
}

// Those who wait may all die, and nobody may ask for the name again.
TEST_F(RedisFairTest, EveryStep_LeavesWaiters_TheQueueLivesAsLongAsTheLastAndFiveMinutes) {
  Holder holder = Waiter();
  Holder first = Waiter();
  Holder second = Waiter();
  Holder passer = Waiter();
  const std::pair<const char*, std::function<void()>> steps[] = {
      {"a wait", [&] { EXPECT_FALSE(second.Queue().acquired); }},
      {"a try", [&] { EXPECT_FALSE(passer.Try().acquired); }},
      {"a re-entry", [&] { EXPECT_TRUE(holder.Queue().acquired); }},
      {"a release of an inner hold", [&] { EXPECT_TRUE(holder.Release(1).held); }},
      {"a release", [&] { EXPECT_TRUE(holder.Release().held); }},
      {"an entry", [&] { EXPECT_TRUE(first.Queue().acquired); }},
      {"a release by force", [&] { EXPECT_TRUE(engine_->ForceRelease("stock", absl::Seconds(20)).ok()); }},
      {"a place that is given up", [&] { EXPECT_TRUE(passer.GiveUp().status.ok()); }},
  };
  ASSERT_TRUE(holder.Queue().acquired);
  EXPECT_FALSE(first.Queue().acquired);
  EXPECT_FALSE(second.Queue().acquired);
  for (const auto& [name, step] : steps) {
    Call({"PERSIST", kQueue});
    Call({"PERSIST", kTimes});
    step();
    for (const char* const key : {kQueue, kTimes}) {
      EXPECT_GT(Number({"PTTL", key}), 240'000) << name;
      EXPECT_LE(Number({"PTTL", key}), 303'000) << name;
    }
  }
  // One of Redisson's has 5 minutes more itself; one that comes after it has as much.
  Plant(kJava, 300'000);
  EXPECT_FALSE(passer.Queue().acquired);
  EXPECT_GT(Number({"PTTL", kTimes}), 540'000);
  EXPECT_LE(Number({"PTTL", kTimes}), 603'000);
  SetLeft(FieldOf(passer), -3'600'000);
  EXPECT_TRUE(holder.GiveUp().status.ok());
  EXPECT_LE(Number({"PTTL", kTimes}), 300'000);
}

TEST_F(RedisFairTest, Try_ScoreOfTheLastIsNoTime_TheQueueLivesForLong) {
  Holder holder = Waiter();
  ASSERT_TRUE(holder.Queue().acquired);
  for (const char* const score : {"+inf", "1e300", "-inf", "1.5", "99999999999999.25"}) {
    Call({"DEL", kQueue, kTimes});
    Call({"RPUSH", kQueue, kJava});
    Call({"ZADD", kTimes, score, kJava});
    const LockRelease inner = holder.Release(1);
    EXPECT_TRUE(inner.status.ok()) << score << ": " << inner.status;
    EXPECT_GE(Number({"PTTL", kQueue}), 290'000) << score;
  }
}

TEST_F(RedisFairTest, Reentrant_HeldByJava_IsRefusedOnlyWhileSomebodyWhoIsAliveWaits) {
  Holder reentrant(*engine_, "stock", LockKind::kReentrant);
  Call({"HSET", "stock", kJava, "1"});
  Call({"PEXPIRE", "stock", "60000"});
  const auto refused = [&] {
    const LockTry step = reentrant.Try();
    EXPECT_FALSE(step.acquired);
    EXPECT_TRUE(step.status.ok() || absl::IsFailedPrecondition(step.status)) << step.status;
    return !step.status.ok();
  };
  EXPECT_FALSE(refused());
  EXPECT_EQ(reentrant.Inspect().kind, LockKind::kReentrant);
  Plant(kOtherJava, 60'000);
  EXPECT_TRUE(refused());
  EXPECT_EQ(reentrant.Inspect().kind, LockKind::kFair);
  SetLeft(kOtherJava, -1);
  EXPECT_FALSE(refused());
  EXPECT_EQ(reentrant.Inspect().kind, LockKind::kReentrant);
  Call({"DEL", kQueue, kTimes});
  Holder fair = Waiter();
  EXPECT_FALSE(fair.Queue().acquired);
  EXPECT_TRUE(refused());
  Call({"DEL", "stock"});
  EXPECT_TRUE(fair.Queue().acquired);
}

}  // namespace
}  // namespace stockade
