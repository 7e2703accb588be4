// What becomes of steps where rows are locked, connections break or the server stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "locks/mysql/mysql_engine_fixture.h"
#include "stockade/base/clock.h"
#include "stockade/mysql/internal/mysql_connection.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using testing::EngineOn;
using ::testing::HasSubstr;
using testing::Holder;
using ::testing::Not;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class MySqlFaultsTest : public testing::MySqlEngineTest {
 protected:
  // Somebody else in the database, who may keep a transaction open.
  class Client {
   public:
    Client() {
      session_ =
          mysql_internal::MySqlConnection::Open(mysql_internal::ParseMySqlUrl(server().url()).value(), -1).value();
      Run("SET SESSION innodb_lock_wait_timeout=50");
    }
    void Run(const std::string& sql, std::span<const mysql_internal::MySqlSink> results = {}) {
      const mysql_internal::MySqlReply reply = session_->Run(sql, results, Clock::System()->Now() + absl::Seconds(40));
      EXPECT_TRUE(reply.status.ok()) << sql << ": " << reply.status;
    }
    void LockRows(const std::string& table, const std::string& name) {
      std::vector<int64_t> rows;
      Run("SELECT 1 FROM " + table + " WHERE name = '" + name + "' FOR UPDATE", mysql_internal::MySqlInto(rows));
    }
    void LockGate(const std::string& name) {
      Run("START TRANSACTION");
      LockRows("stockade_locks", name);
    }

   private:
    std::unique_ptr<mysql_internal::MySqlConnection> session_;
  };

  static void AwaitLockWait() {
    Await("somebody who waits for a row", [] {
      return Number(
                 "SELECT variable_value FROM information_schema.global_status "
                 "WHERE variable_name = 'Innodb_row_lock_current_waits'") > 0;
    });
  }
  static LockTry StepOf(const Holder& holder, absl::Duration timeout) {
    return {.hold = holder.hold(), .lease = absl::Seconds(30), .sequence = 1, .timeout = timeout};
  }
};

TEST_F(MySqlFaultsTest, RowLockedForTooLong_IsUnavailableWithAKnownOutcome) {
  Holder holder(*engine_, "stock");
  holder.Try();
  holder.Release();
  Client other;
  other.LockGate("stock");
  LockTry step = StepOf(holder, absl::Seconds(2));
  engine_->TryMany({&step, 1});
  EXPECT_EQ(step.status.code(), kUnavailable) << step.status;
  EXPECT_THAT(std::string(step.status.message()), HasSubstr("lock 'stock': MySQL error 1205"));
  EXPECT_FALSE(step.outcome_unknown);
  other.Run("COMMIT");
  EXPECT_TRUE(holder.Try().acquired);
}

TEST_F(MySqlFaultsTest, RowLockedForAWhile_TheStepWaitsAndOthersDoNot) {
  Holder holder(*engine_, "stock");
  Holder elsewhere(*engine_, "elsewhere");
  holder.Try();
  holder.Release();
  Client other;
  other.LockGate("stock");
  std::vector<LockTry> tries = {StepOf(holder, absl::Seconds(30)), StepOf(elsewhere, absl::Seconds(30))};
  std::thread trying([&] { engine_->TryMany(tries); });
  Await("the one that nobody locks", [&] { return elsewhere.Inspect().locked; });
  AwaitLockWait();
  other.Run("COMMIT");
  trying.join();
  EXPECT_TRUE(tries[0].acquired) << tries[0].status;
  EXPECT_TRUE(tries[1].acquired) << tries[1].status;
  EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held);
}

// Its rows are free before it is on the disk, so who comes next need not wait for the answer.
TEST_F(MySqlFaultsTest, ReleaseIsSent_WaitersOfThisProcessAreToldBeforeItIsAnswered) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try().acquired);
  Holder waiter(*engine_, "stock");
  std::atomic<int> hints = 0;
  const std::unique_ptr<LockWatch> watch = waiter.Hear([&] { ++hints; });
  Client other;
  other.LockGate("stock");
  std::thread releasing([&] { EXPECT_TRUE(holder.Release().held); });
  Await("a hint", [&] { return hints > 0; });
  EXPECT_TRUE(waiter.Inspect().locked) << "the release waits for a row";
  other.Run("COMMIT");
  releasing.join();
  EXPECT_TRUE(waiter.Try().acquired);
}

TEST_F(MySqlFaultsTest, AllStepsWaitForARow_RenewalsAndQuestionsGoOn) {
  Holder held(*engine_, "held");
  ASSERT_TRUE(held.Try().acquired);
  Holder holder(*engine_, "stock");
  holder.Try();
  holder.Release();
  Client other;
  other.LockGate("stock");
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Holder waiting(*engine_, "stock", LockKind::kRead);
      EXPECT_TRUE(waiting.Try().acquired);
    });
  }
  AwaitLockWait();
  EXPECT_TRUE(held.Renew(absl::Seconds(30)).held);
  EXPECT_TRUE(held.Inspect().locked);
  other.Run("COMMIT");
  for (std::thread& thread : threads) thread.join();
}

// The step has the name's row and wants the hold's; the other one has that and wants the name's.
TEST_F(MySqlFaultsTest, Deadlock_TheStepRunsAgain) {
  Holder lapsed(*engine_, "stock");
  Holder holder(*engine_, "stock");
  lapsed.Try(absl::Seconds(30));
  Age(absl::Seconds(31));
  const std::string deadlocks =
      "SELECT variable_value FROM information_schema.global_status "
      "WHERE variable_name = 'Innodb_deadlocks'";
  const int64_t before = Number(deadlocks);
  Client other;
  other.Run("START TRANSACTION");
  // Heavier than the step, so that the step is the victim.
  other.Run("INSERT INTO stockade_locks VALUES ('a', 1, 1), ('b', 1, 1), ('c', 1, 1), ('d', 1, 1), ('e', 1, 1)");
  other.LockRows("stockade_lock_holds", "stock");
  LockTry step;
  std::thread trying([&] { step = holder.Try(); });
  AwaitLockWait();
  other.LockRows("stockade_locks", "stock");
  other.Run("COMMIT");
  trying.join();
  EXPECT_TRUE(step.acquired) << step.status;
  EXPECT_EQ(step.hold_count, 1);
  EXPECT_GT(Number(deadlocks), before);
}

// It sees no more than before or after a whole step: half a second is a long time for a row that is locked.
TEST_F(MySqlFaultsTest, RenewalWhoseRowIsLocked_FailsAloneAndIsNotHeldBack) {
  Holder one(*engine_, "stock");
  Holder two(*engine_, "elsewhere");
  one.Try();
  two.Try();
  Client other;
  other.Run("START TRANSACTION");
  other.LockRows("stockade_lock_holds", "stock");
  std::vector<LockRenewal> renewals = {{.hold = one.hold(), .lease = absl::Seconds(100)},
                                       {.hold = two.hold(), .lease = absl::Seconds(100)}};
  engine_->RenewMany(renewals, absl::Seconds(20));
  EXPECT_EQ(renewals[0].status.code(), kUnavailable) << renewals[0].status;
  EXPECT_TRUE(renewals[1].status.ok()) << renewals[1].status;
  EXPECT_TRUE(renewals[1].held);
  other.Run("COMMIT");
  EXPECT_TRUE(one.Renew(absl::Seconds(30)).held);
}

// A renewal that waits for the row of what has lapsed must not bring it back once others are in.
TEST_F(MySqlFaultsTest, RenewalThatWasOnItsWay_OfWhatIsTakenMeanwhile_IsNotHeld) {
  Holder lapsing(*engine_, "stock");
  lapsing.Try(absl::Seconds(30));
  Client other;
  other.Run("START TRANSACTION");
  other.Run("UPDATE stockade_lock_holds SET hold_count = 0 WHERE name = 'stock'");
  LockRenewal renewal = {.hold = lapsing.hold(), .lease = absl::Seconds(100)};
  std::thread renewing([&] { engine_->RenewMany({&renewal, 1}, absl::Seconds(20)); });
  AwaitLockWait();
  other.Run("COMMIT");
  renewing.join();
  EXPECT_TRUE(renewal.status.ok()) << renewal.status;
  EXPECT_FALSE(renewal.held);
}

TEST_F(MySqlFaultsTest, ConnectionsKilled_AreReplaced_AndNothingCountsTwice) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try().acquired);
  server().KillConnections();
  LockTry step = holder.Try();
  Await("an answer", [&] {
    if (!step.status.ok()) {
      EXPECT_EQ(step.status.code(), kUnavailable) << step.status;
      step = holder.TryAgain();
    }
    return step.status.ok();
  });
  EXPECT_TRUE(step.acquired);
  EXPECT_EQ(step.hold_count, 2);
}

TEST_F(MySqlFaultsTest, ServerPaused_IsUnavailableInTime_AndTheStepThatComesLateIsTheSame) {
  for (const char* const tls : {"off", "required"}) {
    const auto engine = EngineOn(server().url() + "?tls=" + tls);
    ASSERT_NE(engine, nullptr);
    Holder holder(*engine, tls);
    holder.set_sequence(1);
    server().Pause();
    const Instant began = Clock::System()->Now();
    LockTry step = StepOf(holder, absl::Seconds(1));
    engine->TryMany({&step, 1});
    EXPECT_EQ(step.status.code(), kUnavailable) << step.status;
    EXPECT_TRUE(step.outcome_unknown);
    LockTry next = StepOf(holder, absl::Milliseconds(300));
    engine->TryMany({&next, 1});
    EXPECT_EQ(next.status.code(), kUnavailable) << next.status;
    EXPECT_FALSE(next.outcome_unknown) << "there is no connection to send it on";
    EXPECT_LT(Clock::System()->Now() - began, absl::Seconds(20));
    server().Resume();
    Await("the step that was sent", [&] { return holder.Inspect().locked; });
    EXPECT_EQ(holder.TryAgain().hold_count, 1);
  }
}

TEST_F(MySqlFaultsTest, NoTimeIsLeft_NothingIsSent) {
  Holder holder(*engine_, "stock");
  LockTry step = StepOf(holder, absl::ZeroDuration());
  engine_->TryMany({&step, 1});
  EXPECT_EQ(step.status.code(), kUnavailable) << step.status;
  EXPECT_FALSE(step.outcome_unknown);
  EXPECT_FALSE(holder.Inspect().locked);
}

TEST_F(MySqlFaultsTest, ServerPaused_TheEngineEndsAllTheSame) {
  std::atomic<int> hints = 0;
  Holder holder(*engine_, "stock");
  Holder waiter(*engine_, "stock");
  ASSERT_TRUE(holder.Try().acquired);
  auto watch = waiter.Hear([&] { ++hints; });
  const uint64_t questions = engine_->questions();
  Await("a question", [&] { return engine_->questions() > questions; });
  server().Pause();
  const Instant began = Clock::System()->Now();
  watch.reset();
  engine_.reset();
  EXPECT_LT(Clock::System()->Now() - began, absl::Seconds(20));
  server().Resume();
}

TEST_F(MySqlFaultsTest, ServerRestarted_HoldsAreStillThere) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try(absl::Minutes(10)).acquired);
  server().Restart();
  LockTry step = holder.Try();
  Await("an answer", [&] {
    if (!step.status.ok()) step = holder.TryAgain();
    return step.status.ok();
  });
  EXPECT_EQ(step.hold_count, 2);
}

TEST_F(MySqlFaultsTest, ReadOnlyServer_IsUnavailableWithAKnownOutcome) {
  Holder holder(*engine_, "stock");
  server().Query("SET GLOBAL read_only = 1");
  const LockTry refused = holder.Try();
  server().Query("SET GLOBAL read_only = 0");
  EXPECT_EQ(refused.status.code(), kUnavailable) << refused.status;
  EXPECT_FALSE(refused.outcome_unknown);
  EXPECT_TRUE(holder.Try().acquired);
}

TEST_F(MySqlFaultsTest, ReadOnlyServer_ConnectionIsGivenUp) {
  const auto session =
      mysql_internal::MySqlConnection::Open(mysql_internal::ParseMySqlUrl(server().url()).value(), -1).value();
  server().Query("SET GLOBAL read_only = 1");
  const mysql_internal::MySqlReply reply =
      session->Run("CREATE TABLE gone (id INT)", {}, Clock::System()->Now() + absl::Seconds(20));
  server().Query("SET GLOBAL read_only = 0");
  EXPECT_EQ(reply.remedy, mysql_internal::MySqlRemedy::kReconnect) << reply.status;
  EXPECT_TRUE(session->broken());
}

TEST_F(MySqlFaultsTest, FailedPacket_IsRolledBack) {
  const auto session =
      mysql_internal::MySqlConnection::Open(mysql_internal::ParseMySqlUrl(server().url()).value(), -1).value();
  const auto run = [&](const std::string& sql) {
    return session->Run(sql, {}, Clock::System()->Now() + absl::Seconds(20)).status.ok();
  };
  EXPECT_FALSE(
      run("START TRANSACTION;INSERT INTO stockade_locks VALUES ('half', 1, 1);INSERT INTO none VALUES (1);COMMIT"));
  EXPECT_FALSE(session->broken());
  EXPECT_TRUE(run("START TRANSACTION;COMMIT"));
  EXPECT_EQ(Number("SELECT COUNT(*) FROM test.stockade_locks WHERE name = 'half'"), 0);
}

TEST_F(MySqlFaultsTest, ReleaseElsewhere_IsHeard) {
  const auto elsewhere = EngineOn(server().url());
  ASSERT_NE(elsewhere, nullptr);
  Holder holder(*elsewhere, "stock");
  Holder waiter(*engine_, "stock");
  ASSERT_TRUE(holder.Try().acquired);
  std::atomic<int> hints = 0;
  const auto watch = waiter.Hear([&] { ++hints; });
  const uint64_t questions = engine_->questions();
  Await("questions", [&] { return engine_->questions() > questions + 3; });
  EXPECT_EQ(hints, 0);
  holder.Release();
  Await("a hint", [&] { return hints > 0; });
  EXPECT_TRUE(waiter.Try().acquired);
}

TEST_F(MySqlFaultsTest, OldRows_ArePurged_AndOnlyThose) {
  Holder holder(*engine_, "stock");
  ASSERT_TRUE(holder.Try(absl::Minutes(10)).acquired);
  Holder ended(*engine_, "ended");
  ended.Try();
  ended.Release(0, true);
  Holder recent(*engine_, "recent");
  recent.Try();
  recent.Release(0, true);
  Age(absl::Minutes(1), "ended");
  server().Query("UPDATE test.stockade_locks SET used_at = used_at - 3600000000 WHERE name = 'ended'");
  const auto purger =
      EngineOn(server().url(), {.token_retention = absl::Minutes(30), .purge_interval = absl::Milliseconds(20)});
  ASSERT_NE(purger, nullptr);
  Await("the purge", [] {
    return Number(
               "SELECT (SELECT COUNT(*) FROM test.stockade_locks) + (SELECT COUNT(*) FROM test.stockade_lock_holds)") <=
           4;
  });
  EXPECT_EQ(Holds("hold_count"), "1");
  EXPECT_EQ(Holds("hold_count", "recent"), "0");
  EXPECT_EQ(Number("SELECT COUNT(*) FROM test.stockade_locks"), 2);
}

}  // namespace
}  // namespace stockade
