// Keys that are not locks, and locks of another kind than the caller expects: nothing is written to them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "locks/redis/redis_engine_fixture.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade {
namespace {

using testing::Holder;

constexpr LockKind kKinds[] = {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite};
constexpr absl::Duration kTimeout = absl::Seconds(20);

class RedisForeignKeysTest : public testing::RedisEngineTest {
 protected:
  std::string Value() const { return Call({"DUMP", "stock"}).text; }
};

TEST_F(RedisForeignKeysTest, Inspect_LockOfAnyKind_SaysTheKindAndChangesNothing) {
  for (const LockKind held : kKinds) {
    Holder holder(*engine_, "stock", held);
    ASSERT_TRUE(holder.Try().acquired) << LockKindName(held);
    ASSERT_TRUE(holder.Try().acquired) << LockKindName(held);
    EXPECT_TRUE(holder.Release(1).held) << LockKindName(held);
    const std::string before = Value();
    const absl::StatusOr<LockState> state = engine_->Inspect("stock", LockOwner::New().id(), kTimeout);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_TRUE(state->locked) << LockKindName(held);
    EXPECT_EQ(state->kind, held) << LockKindName(held) << ", not " << LockKindName(state->kind);
    EXPECT_EQ(state->owner_holds, 0) << LockKindName(held);
    EXPECT_EQ(Value(), before) << LockKindName(held);
    EXPECT_FALSE(Holder(*engine_, "stock", LockKind::kWrite).Try().acquired) << LockKindName(held);
    EXPECT_TRUE(holder.Release().held) << LockKindName(held);
  }
}

TEST_F(RedisForeignKeysTest, Inspect_ReaderHasLapsedAmongOthers_ChangesNothing) {
  Holder crashed(*engine_, "stock", LockKind::kRead);
  Holder other(*engine_, "stock", LockKind::kRead);
  ASSERT_TRUE(crashed.Try().acquired);
  ASSERT_TRUE(other.Try().acquired);
  Call({"DEL", "{stock}:" + FieldOf(crashed) + ":rwlock_timeout:1"});
  const std::string before = Value();
  EXPECT_EQ(crashed.Inspect().owner_holds, 0);
  EXPECT_EQ(other.Inspect().owner_holds, 1);
  EXPECT_EQ(Value(), before);
}

TEST_F(RedisForeignKeysTest, EveryCall_OnDataOfTheApplication_IsFailedPreconditionAndChangesNothing) {
  const std::vector<std::vector<std::string>> foreign = {
      {"HSET", "stock", "title", "shoe"},
      {"HSET", "stock", "count", "3000000"},
      {"HSET", "stock", "mode", "read", "title", "shoe"},
      {"HSET", "stock", "mode", "write", "title", "shoe"},
      {"HSET", "stock", "mode", "read", "user:1", "3000000"},
      {"HSET", "stock", "mode", "read"},
      {"HSET", "stock", "mode", "dark"},
      {"HSET", "stock", "0f8fad5b-d9cb-469f-a165-70867728950e:7", "price=12"},
      {"HSET", "stock", "0f8fad5b-d9cb-469f-a165-70867728950e:7", "0"},
      {"HSET", "stock", "0f8fad5b-d9cb-469f-a165-70867728950e:7", "1e3"},
      {"SET", "stock", "shoe"},
      {"RPUSH", "stock", "shoe"},
  };
  for (const std::vector<std::string>& command : foreign) {
    for (const bool expires : {false, true}) {
      SCOPED_TRACE(command[0] + " " + command[2] + (expires ? ", expires" : ""));
      Call(command);
      if (expires) Call({"PEXPIREAT", "stock", "4102444800000"});
      const std::string before = Value();
      const int64_t expiry = Number({"PEXPIRETIME", "stock"});
      for (const LockKind kind : kKinds) {
        SCOPED_TRACE(LockKindName(kind));
        Holder holder(*engine_, "stock", kind);
        EXPECT_EQ(engine_->Inspect("stock", holder.hold().owner, kTimeout).status().code(),
                  absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(engine_->ForceRelease("stock", kTimeout).status().code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(holder.Try().status.code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(holder.Queue().status.code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_FALSE(holder.Renew(absl::Seconds(30)).held);
        EXPECT_FALSE(holder.Release().held);
      }
      EXPECT_EQ(Value(), before);
      EXPECT_EQ(Number({"PEXPIRETIME", "stock"}), expiry);
      Call({"FLUSHALL"});
    }
  }
}

TEST_F(RedisForeignKeysTest, Step_TheHoldersRecordIsSomethingElse_IsRefusedAndNamesTheKey) {
  for (const LockKind kind : kKinds) {
    SCOPED_TRACE(LockKindName(kind));
    Holder holder(*engine_, "stock", kind);
    ASSERT_TRUE(holder.Try().acquired);
    for (const char* const text : {"", "text", "-1 1", "x 1", "1"}) {
      Call({"SET", RecordOf(holder), text});
      for (const absl::Status& status : {holder.Try().status, holder.Release().status, holder.GiveUp().status}) {
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
        EXPECT_NE(status.message().find(RecordOf(holder)), std::string::npos) << status;
      }
      EXPECT_EQ(Call({"GET", RecordOf(holder)}), text);
      EXPECT_EQ(holder.Inspect().owner_holds, 1);
    }
    Call({"FLUSHALL"});
  }
}

// What a holder does with a lock into whose key an application has written.
struct Step {
  const char* name;
  // Whether the answer is that the hold is gone.
  bool (*finds_it_gone)(Holder& holder);
};

constexpr Step kSteps[] = {
    {"re-entry",
     [](Holder& holder) {
       const LockTry step = holder.Try();
       return step.status.code() == absl::StatusCode::kFailedPrecondition && step.hold_gone;
     }},
    {"renewal",
     [](Holder& holder) {
       const LockRenewal renewal = holder.Renew(absl::Seconds(30));
       return renewal.status.ok() && !renewal.held;
     }},
    {"release of an inner hold", [](Holder& holder) { return !holder.Release(1).held; }},
    {"release", [](Holder& holder) { return !holder.Release(0).held; }},
    {"take-back", [](Holder& holder) { return !holder.GiveUp().held; }},
};

TEST_F(RedisForeignKeysTest, EveryStep_OfAHolderIntoWhoseKeyAnApplicationHasWritten_LeavesTheKeyToIt) {
  for (const LockKind kind : kKinds) {
    for (const Step& step : kSteps) {
      SCOPED_TRACE(std::string(LockKindName(kind)) + ", " + step.name);
      Holder holder(*engine_, "stock", kind);
      ASSERT_TRUE(holder.Try().acquired);
      ASSERT_TRUE(holder.Try().acquired);
      Call({"HSET", "stock", "title", "shoe"});
      EXPECT_TRUE(step.finds_it_gone(holder));
      EXPECT_EQ(Call({"HGET", "stock", "title"}).text, "shoe");
      EXPECT_EQ(Number({"HEXISTS", "stock", FieldOf(holder)}), 0);
      EXPECT_EQ(Number({"PTTL", "stock"}), -1);
      const std::string before = Value();
      EXPECT_FALSE(holder.Renew(absl::Seconds(30)).held);
      EXPECT_FALSE(holder.Release().held);
      EXPECT_EQ(holder.Try().status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(engine_->ForceRelease("stock", kTimeout).status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(Value(), before);
      EXPECT_EQ(Number({"PTTL", "stock"}), -1);
      Call({"FLUSHALL"});
    }
  }
}

TEST_F(RedisForeignKeysTest, Renewal_AnApplicationHasWrittenAndAnotherReaderIsThere_TheTimeToLiveStays) {
  Holder reader(*engine_, "stock", LockKind::kRead);
  Holder other(*engine_, "stock", LockKind::kRead);
  ASSERT_TRUE(reader.Try(absl::Seconds(60)).acquired);
  ASSERT_TRUE(other.Try(absl::Seconds(60)).acquired);
  Call({"HSET", "stock", "title", "shoe"});
  EXPECT_FALSE(reader.Renew(absl::Seconds(90)).held);
  EXPECT_EQ(Number({"HEXISTS", "stock", FieldOf(reader)}), 0);
  EXPECT_EQ(Number({"HEXISTS", "stock", FieldOf(other)}), 1);
  EXPECT_GT(Number({"PTTL", "stock"}), 0);
  EXPECT_FALSE(other.Release().held);
  EXPECT_EQ(Number({"PTTL", "stock"}), -1);
  EXPECT_EQ(Call({"HGET", "stock", "title"}).text, "shoe");
}

TEST_F(RedisForeignKeysTest, Renewal_AnApplicationHasWrittenIntoOneOfTwo_TheOtherIsRenewed) {
  Holder holder(*engine_, "stock");
  Holder other(*engine_, "other");
  ASSERT_TRUE(holder.Try().acquired);
  ASSERT_TRUE(other.Try().acquired);
  Call({"HSET", "stock", "title", "shoe"});
  LockRenewal renewals[] = {{.hold = holder.hold(), .lease = absl::Seconds(60), .sequence = holder.sequence()},
                            {.hold = other.hold(), .lease = absl::Seconds(60), .sequence = other.sequence()}};
  engine_->RenewMany(renewals, kTimeout);
  EXPECT_FALSE(renewals[0].held);
  EXPECT_TRUE(renewals[1].held);
  EXPECT_GT(Number({"PTTL", "other"}), 55'000);
}

TEST_F(RedisForeignKeysTest, Release_AHugeHashOfAnApplication_IsLookedAtInPart) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try().acquired);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> command = {"HSET", "stock"};
    for (int j = 0; j < 200; ++j) command.insert(command.end(), {std::to_string(200 * i + j), "x"});
    Call(command);
  }
  Call({"CONFIG", "RESETSTAT"});
  EXPECT_FALSE(holder.Release().held);
  EXPECT_EQ(Number({"HLEN", "stock"}), 40'000);
  const std::string stats = Call({"INFO", "commandstats"}).text;
  const std::string name = "cmdstat_hscan:calls=";
  const size_t at = stats.find(name);
  ASSERT_NE(at, std::string::npos) << stats;
  EXPECT_LT(std::stoll(stats.substr(at + name.size())), 200);
}

// Through the service: the reason of the loss, and what the leases say from then on.
TEST_F(RedisForeignKeysTest, Service_AnApplicationHasWritten_TheHoldIsLostAndItsDataStay) {
  for (const LockKind kind : kKinds) {
    SCOPED_TRACE(LockKindName(kind));
    const auto locks = RedisLockService::Connect(server_->url());
    ASSERT_TRUE(locks.ok()) << locks.status();
    absl::StatusOr<LockLease> outer = (*locks)->Acquire("stock", {.kind = kind});
    ASSERT_TRUE(outer.ok()) << outer.status();
    Call({"HSET", "stock", "title", "shoe"});
    EXPECT_EQ((*locks)->Acquire("stock", {.kind = kind}).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(outer->valid());
    EXPECT_TRUE(outer->lost().stop_requested());
    const absl::Status released = outer->Release();
    EXPECT_EQ(released.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(released.message().find("an application has written into its key"), std::string::npos) << released;
    EXPECT_EQ(Call({"HGET", "stock", "title"}).text, "shoe");
    EXPECT_EQ(Number({"PTTL", "stock"}), -1);
    Call({"FLUSHALL"});
  }
}

TEST_F(RedisForeignKeysTest, AbsurdCountOfAReader_IsLookedAtInPart) {
  Holder reader(*engine_, "stock", LockKind::kRead);
  ASSERT_TRUE(reader.Try().acquired);
  Call({"HSET", "stock", FieldOf(reader), "3000000"});
  Call({"CONFIG", "RESETSTAT"});
  Holder writer(*engine_, "stock", LockKind::kWrite);
  EXPECT_TRUE(writer.Inspect().locked);
  EXPECT_FALSE(writer.Try().acquired) << "the reader is there";
  EXPECT_TRUE(reader.Renew(absl::Seconds(60)).held);
  (void)engine_->ForceRelease("stock", kTimeout);
  const std::string stats = Call({"INFO", "commandstats"}).text;
  for (const std::string name : {"cmdstat_pttl:calls=", "cmdstat_del:calls="}) {
    const size_t at = stats.find(name);
    ASSERT_NE(at, std::string::npos) << stats;
    EXPECT_LT(std::stoll(stats.substr(at + name.size())), 50'000);
  }
}

TEST_F(RedisForeignKeysTest, Renew_TimeToLiveIsTooLong_CorrectsIt) {
  for (const LockKind kind : kKinds) {
    Holder holder(*engine_, "stock", kind);
    ASSERT_TRUE(holder.Try().acquired) << LockKindName(kind);
    const std::string timeout = "{stock}:" + FieldOf(holder) + ":rwlock_timeout:1";
    for (const std::string& key : {std::string("stock"), timeout}) Call({"PEXPIRE", key, "3600000"});
    EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held) << LockKindName(kind);
    EXPECT_LE(Number({"PTTL", "stock"}), 30'000) << LockKindName(kind);
    EXPECT_GT(Number({"PTTL", "stock"}), 0) << LockKindName(kind);
    EXPECT_LE(Number({"PTTL", timeout}), 30'000) << LockKindName(kind);
    EXPECT_TRUE(holder.Release().held) << LockKindName(kind);
  }
}

TEST_F(RedisForeignKeysTest, Renew_ReadWithinALongerWrite_KeepsTheLockForTheWrite) {
  const LockOwner owner = LockOwner::New();
  Holder writer(*engine_, "stock", LockKind::kWrite, owner);
  Holder reader(*engine_, "stock", LockKind::kRead, owner);
  ASSERT_TRUE(writer.Try(absl::Seconds(300)).acquired);
  ASSERT_TRUE(reader.Try(absl::Seconds(30)).acquired);
  EXPECT_TRUE(reader.Renew(absl::Seconds(30)).held);
  EXPECT_GT(Number({"PTTL", "stock"}), 290'000);
}

TEST_F(RedisForeignKeysTest, Renew_WriteWithALongerRead_KeepsTheLockForTheRead) {
  const LockOwner owner = LockOwner::New();
  Holder writer(*engine_, "stock", LockKind::kWrite, owner);
  Holder reader(*engine_, "stock", LockKind::kRead, owner);
  ASSERT_TRUE(writer.Try(absl::Seconds(30)).acquired);
  ASSERT_TRUE(reader.Try(absl::Seconds(300)).acquired);
  EXPECT_TRUE(writer.Renew(absl::Seconds(30)).held);
  EXPECT_GT(Number({"PTTL", "stock"}), 290'000);
}

TEST_F(RedisForeignKeysTest, Renew_OneOfTwoReaders_KeepsTheLockForTheOther) {
  Holder brief(*engine_, "stock", LockKind::kRead);
  Holder longer(*engine_, "stock", LockKind::kRead);
  ASSERT_TRUE(brief.Try(absl::Seconds(30)).acquired);
  ASSERT_TRUE(longer.Try(absl::Seconds(300)).acquired);
  EXPECT_TRUE(brief.Renew(absl::Seconds(30)).held);
  EXPECT_GT(Number({"PTTL", "stock"}), 290'000);
}

}  // namespace
}  // namespace stockade
