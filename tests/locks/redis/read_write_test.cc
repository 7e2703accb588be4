// What the scripts of the read-write lock leave behind, looked at by another connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "locks/redis/redis_engine_fixture.h"
#include "redis/support/ear.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using testing::Holder;

class RedisReadWriteTest : public testing::RedisEngineTest {
 protected:
  Holder Reader(LockOwner owner = LockOwner::New()) { return Holder(*engine_, "stock", LockKind::kRead, owner); }
  Holder Writer(LockOwner owner = LockOwner::New()) { return Holder(*engine_, "stock", LockKind::kWrite, owner); }
  std::string TimeoutOf(const Holder& reader, int number) const {
    return "{stock}:" + FieldOf(reader) + ":rwlock_timeout:" + std::to_string(number);
  }
  std::string Mode() const { return Call({"HGET", "stock", "mode"}).text; }
  std::string Count(const Holder& holder) const { return Call({"HGET", "stock", FieldOf(holder)}).text; }
  // As if its lease were over while another keeps the lock.
  void Crash(const Holder& reader) const { Call({"DEL", TimeoutOf(reader, 1), TimeoutOf(reader, 2)}); }
};

TEST_F(RedisReadWriteTest, Read_Twice_HasATimeoutKeyForEach) {
  Holder reader = Reader();
  EXPECT_EQ(reader.Try(absl::Seconds(60)).hold_count, 1);
  EXPECT_EQ(reader.Try(absl::Seconds(30)).hold_count, 2);
  EXPECT_EQ(Mode(), "read");
  EXPECT_EQ(Count(reader), "2");
  EXPECT_GT(Number({"PTTL", "stock"}), 50'000);
  EXPECT_EQ(Call({"GET", TimeoutOf(reader, 1)}), "1");
  EXPECT_GT(Number({"PTTL", TimeoutOf(reader, 1)}), 50'000);
  EXPECT_GT(Number({"PTTL", TimeoutOf(reader, 2)}), 20'000);
}

// It comes late: who sent it has another answer by then.
TEST_F(RedisReadWriteTest, ReadSentAgain_ItsHoldHasLapsedAmongOthers_IsRefused) {
  Holder reader = Reader();
  Holder other = Reader();
  ASSERT_TRUE(reader.Try().acquired);
  ASSERT_TRUE(other.Try().acquired);
  Crash(reader);
  EXPECT_EQ(reader.TryAgain().status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Call({"EXISTS", TimeoutOf(reader, 1)}), "0");
  EXPECT_EQ(reader.Try().hold_count, 1);
}

TEST_F(RedisReadWriteTest, Write_Twice_HoldsForWriting) {
  Holder writer = Writer();
  const int64_t first = writer.Try(absl::Seconds(60)).fencing_token.value_or(0);
  const LockTry again = writer.Try(absl::Seconds(30));
  EXPECT_EQ(again.hold_count, 2);
  EXPECT_GT(again.fencing_token.value_or(0), first);
  EXPECT_EQ(Mode(), "write");
  EXPECT_EQ(Count(writer), "2");
  EXPECT_GT(Number({"PTTL", "stock"}), 50'000);
  EXPECT_LE(Number({"PTTL", "stock"}), 60'000);
}

TEST_F(RedisReadWriteTest, OthersEnter_OnlyToReadWhileOthersRead) {
  Holder reader = Reader();
  Holder other_reader = Reader();
  Holder writer = Writer();
  Holder other_writer = Writer();
  EXPECT_TRUE(reader.Try().acquired);
  EXPECT_TRUE(other_reader.Try().acquired);
  EXPECT_FALSE(writer.Try().acquired);
  reader.Release();
  EXPECT_FALSE(writer.Try().acquired);
  other_reader.Release();
  EXPECT_TRUE(writer.Try().acquired);
  EXPECT_FALSE(reader.Try().acquired);
  EXPECT_FALSE(other_writer.Try().acquired);
  writer.Release();
  EXPECT_TRUE(reader.Try().acquired);
}

TEST_F(RedisReadWriteTest, Write_WhileItReads_IsRefused) {
  const LockOwner owner = LockOwner::New();
  Holder reader = Reader(owner);
  Holder writer = Writer(owner);
  ASSERT_TRUE(reader.Try().acquired);
  EXPECT_FALSE(writer.Try().acquired);
  EXPECT_EQ(Mode(), "read");
}

TEST_F(RedisReadWriteTest, Downgrade_LetsReadersInAndTellsThem) {
  testing::Ear ear;
  std::unique_ptr<RedisClient> redis = RedisClient::Connect(server_->url()).value();
  const RedisSubscription subscription = redis->Subscribe("redisson_rwlock:{stock}", ear.subscriber()).value();
  ASSERT_TRUE(ear.AwaitConfirmations(1));
  const LockOwner owner = LockOwner::New();
  Holder reader = Reader(owner);
  Holder writer = Writer(owner);
  Holder other = Reader();
  ASSERT_TRUE(writer.Try(absl::Seconds(100)).acquired);
  ASSERT_EQ(reader.Try(absl::Seconds(30)).hold_count, 1);
  EXPECT_EQ(Mode(), "write");
  EXPECT_FALSE(other.Try().acquired);
  EXPECT_TRUE(writer.Release().held);
  EXPECT_EQ(Mode(), "read");
  EXPECT_LE(Number({"PTTL", "stock"}), 30'000);
  EXPECT_EQ(Call({"HLEN", "stock"}), "2");
  EXPECT_TRUE(other.Try().acquired);
  ASSERT_TRUE(ear.AwaitMessages(1));
  EXPECT_THAT(ear.heard(), ::testing::ElementsAre("1"));
}

TEST_F(RedisReadWriteTest, WriterGoesOn_WhenItsReadEnds) {
  const LockOwner owner = LockOwner::New();
  Holder reader = Reader(owner);
  Holder writer = Writer(owner);
  writer.Try();
  reader.Try();
  EXPECT_TRUE(reader.Release().held);
  EXPECT_EQ(Mode(), "write");
  EXPECT_EQ(Count(writer), "1");
  EXPECT_TRUE(writer.Release().held);
  EXPECT_EQ(Number({"EXISTS", "stock"}), 0);
}

TEST_F(RedisReadWriteTest, Release_TheLast_LeavesNothingAndPublishes) {
  testing::Ear ear;
  std::unique_ptr<RedisClient> redis = RedisClient::Connect(server_->url()).value();
  const RedisSubscription subscription = redis->Subscribe("redisson_rwlock:{stock}", ear.subscriber()).value();
  ASSERT_TRUE(ear.AwaitConfirmations(1));
  Holder reader = Reader();
  Holder writer = Writer();
  reader.Try();
  reader.Try();
  EXPECT_TRUE(reader.Release(1).held);
  EXPECT_EQ(Number({"EXISTS", TimeoutOf(reader, 1), TimeoutOf(reader, 2)}), 1);
  EXPECT_TRUE(reader.Release(0).held);
  EXPECT_EQ(Number({"EXISTS", "stock", TimeoutOf(reader, 1), TimeoutOf(reader, 2), RecordOf(reader)}), 0);
  writer.Try();
  writer.Release();
  EXPECT_EQ(Number({"EXISTS", "stock", RecordOf(writer)}), 0);
  ASSERT_TRUE(ear.AwaitMessages(2));
  EXPECT_THAT(ear.heard(), ::testing::ElementsAre("0", "1"));
}

TEST_F(RedisReadWriteTest, Release_ThatLeavesAHold_DoesNotShorten) {
  Holder reader = Reader();
  reader.Try(absl::Seconds(10));
  reader.Try(absl::Seconds(60));
  EXPECT_TRUE(reader.Release(1).held);
  EXPECT_GT(Number({"PTTL", TimeoutOf(reader, 1)}), 50'000);
  EXPECT_GT(Number({"PTTL", "stock"}), 50'000);
}

TEST_F(RedisReadWriteTest, Release_OfTheLongestReader_LeavesTheOthersTime) {
  Holder reader = Reader();
  Holder other = Reader();
  reader.Try(absl::Seconds(100));
  other.Try(absl::Seconds(30));
  EXPECT_GT(Number({"PTTL", "stock"}), 90'000);
  reader.Release();
  EXPECT_LE(Number({"PTTL", "stock"}), 30'000);
}

TEST_F(RedisReadWriteTest, Steps_SentTwice_CountOnce) {
  for (const LockKind kind : {LockKind::kRead, LockKind::kWrite}) {
    Holder holder(*engine_, "twice", kind);
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
    EXPECT_EQ(holder.TryAgain().status.code(), absl::StatusCode::kAborted);
  }
}

TEST_F(RedisReadWriteTest, GiveUp_KeepsWhatWasConfirmed) {
  Holder reader = Reader();
  Holder writer = Writer();
  EXPECT_FALSE(writer.GiveUp().held);
  reader.Try();
  reader.Try();
  EXPECT_TRUE(reader.GiveUp(1).held);
  EXPECT_EQ(Count(reader), "1");
  EXPECT_EQ(Number({"EXISTS", TimeoutOf(reader, 2)}), 0);
}

TEST_F(RedisReadWriteTest, CrashedReader_DoesNotKeepTheWriterOut) {
  Holder crashed = Reader();
  Holder alive = Reader();
  Holder writer = Writer();
  crashed.Try(absl::Seconds(100));
  alive.Try(absl::Seconds(30));
  Crash(crashed);
  const LockTry refused = writer.Try();
  EXPECT_FALSE(refused.acquired);
  EXPECT_LE(refused.retry_after, absl::Seconds(30));
  EXPECT_EQ(Count(crashed), "");
  Crash(alive);
  EXPECT_TRUE(writer.Try().acquired);
  EXPECT_EQ(Mode(), "write");
  EXPECT_EQ(Call({"HLEN", "stock"}), "2");
}

TEST_F(RedisReadWriteTest, CrashedReader_DoesNotOutliveTheOthersRelease) {
  Holder crashed = Reader();
  Holder alive = Reader();
  crashed.Try(absl::Seconds(100));
  alive.Try(absl::Seconds(30));
  Crash(crashed);
  EXPECT_TRUE(alive.Release().held);
  EXPECT_EQ(Number({"EXISTS", "stock"}), 0);
}

TEST_F(RedisReadWriteTest, CrashedReader_LearnsItAndBeginsAnew) {
  Holder crashed = Reader();
  Holder alive = Reader();
  crashed.Try();
  crashed.Try();
  alive.Try();
  Crash(crashed);
  EXPECT_FALSE(crashed.Renew(absl::Seconds(30)).held);
  EXPECT_EQ(crashed.Inspect().owner_holds, 0);
  EXPECT_EQ(crashed.Try().hold_count, 1);
  Crash(crashed);
  EXPECT_FALSE(crashed.Release().held);
  EXPECT_EQ(Count(alive), "1");
}

TEST_F(RedisReadWriteTest, ReaderWithAShortLease_LapsesBesideOneWithALongOne) {
  Holder brief = Reader();
  Holder other = Reader();
  other.Try(absl::Seconds(100));
  brief.Try(absl::Milliseconds(300));
  Await("the brief lease's end", [&] { return Number({"EXISTS", TimeoutOf(brief, 1)}) == 0; });
  EXPECT_FALSE(brief.Renew(absl::Seconds(30)).held);
  EXPECT_TRUE(other.Renew(absl::Seconds(30)).held);
}

TEST_F(RedisReadWriteTest, Renew_OfAReader_ProlongsItsTimeoutsAndTheLock) {
  Holder reader = Reader();
  Holder other = Reader();
  reader.Try(absl::Seconds(30));
  reader.Try(absl::Seconds(30));
  other.Try(absl::Seconds(30));
  EXPECT_TRUE(reader.Renew(absl::Seconds(100)).held);
  EXPECT_GT(Number({"PTTL", "stock"}), 90'000);
  EXPECT_GT(Number({"PTTL", TimeoutOf(reader, 1)}), 90'000);
  EXPECT_GT(Number({"PTTL", TimeoutOf(reader, 2)}), 90'000);
  EXPECT_LE(Number({"PTTL", TimeoutOf(other, 1)}), 30'000);
  EXPECT_TRUE(reader.Renew(absl::Seconds(50)).held);
  EXPECT_LE(Number({"PTTL", "stock"}), 50'000);
  EXPECT_LE(Number({"PTTL", TimeoutOf(reader, 1)}), 50'000);
  reader.set_sequence(reader.sequence() - 1);  // A renewal that does not know of the newest step.
  EXPECT_TRUE(reader.Renew(absl::Seconds(1)).held);
  EXPECT_GT(Number({"PTTL", "stock"}), 30'000);
  EXPECT_GT(Number({"PTTL", TimeoutOf(reader, 1)}), 30'000);
}

TEST_F(RedisReadWriteTest, Renew_OfAWriter_DoesNotKeepItsLapsedRead) {
  const LockOwner owner = LockOwner::New();
  Holder reader = Reader(owner);
  Holder writer = Writer(owner);
  writer.Try();
  reader.Try();
  EXPECT_TRUE(writer.Renew(absl::Seconds(100)).held);
  EXPECT_GT(Number({"PTTL", "stock"}), 90'000);
  Crash(reader);
  EXPECT_TRUE(writer.Release().held);
  EXPECT_EQ(Number({"EXISTS", "stock"}), 0);
}

TEST_F(RedisReadWriteTest, Try_OfAPlainLock_IsRefused) {
  Holder plain(*engine_, "stock");
  ASSERT_TRUE(plain.Try().acquired);
  EXPECT_EQ(Reader().Try().status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Writer().Try().status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Count(plain), "1");
}

TEST_F(RedisReadWriteTest, Inspect_TellsOfReadersAndWriters) {
  const LockOwner owner = LockOwner::New();
  Holder reader = Reader(owner);
  Holder writer = Writer(owner);
  EXPECT_FALSE(reader.Inspect().locked);
  writer.Try(absl::Seconds(30));
  reader.Try(absl::Seconds(30));
  EXPECT_EQ(writer.Inspect().owner_holds, 2);
  EXPECT_EQ(writer.Inspect().kind, LockKind::kWrite);
  EXPECT_GT(writer.Inspect().remaining, absl::Seconds(20));
  writer.Release();
  EXPECT_TRUE(reader.Inspect().locked);
  EXPECT_EQ(reader.Inspect().owner_holds, 1);
  EXPECT_EQ(reader.Inspect().kind, LockKind::kRead);
  Crash(reader);
  EXPECT_FALSE(writer.Inspect().locked);
}

TEST_F(RedisReadWriteTest, ForceRelease_TakesItFromReadersAndWriters) {
  const auto force = [this] { return engine_->ForceRelease("stock", absl::Seconds(20)).value(); };
  Holder reader = Reader();
  Holder writer = Writer();
  reader.Try();
  reader.Try();
  EXPECT_EQ(force(), LockKind::kRead);
  EXPECT_EQ(Number({"EXISTS", "stock", TimeoutOf(reader, 1), TimeoutOf(reader, 2)}), 0);
  EXPECT_FALSE(force());
  EXPECT_TRUE(writer.Try().acquired);
  EXPECT_EQ(force(), LockKind::kWrite);
  EXPECT_FALSE(writer.Renew(absl::Seconds(30)).held);
}

}  // namespace
}  // namespace stockade
