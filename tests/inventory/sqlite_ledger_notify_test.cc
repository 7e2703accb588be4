// NotifyDurable(): who is called, when, by which thread and in which order.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_gate_clock.h"
#include "inventory/sqlite_ledger_support.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::GateClock;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::Scaled;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;

struct ToldDurable {
  uint64_t position;
  int call;  // Which of the calls of NotifyDurable().
  absl::Status outcome;
  std::thread::id thread;
};

// Records its notifications in their order. Thread-safe.
class Listener {
 public:
  void Ask(SqliteLedger& ledger, uint64_t position, int call = 0) {
    ledger.NotifyDurable(position, [this, position, call](absl::Status outcome) {
      std::lock_guard own(mutex_);
      told_.push_back({position, call, std::move(outcome), std::this_thread::get_id()});
      changed_.notify_all();
    });
  }

  std::vector<ToldDurable> Await(size_t count) {
    std::unique_lock own(mutex_);
    changed_.wait(own, [&] { return told_.size() >= count; });
    return told_;
  }

  std::vector<ToldDurable> SoFar() { return Await(0); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ToldDurable> told_;
};

TEST(SqliteLedgerNotifyDeathTest, NotifyDurable_WithoutACallback_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // A ledger cannot be used in a forked child.
  const TempDir dir;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  EXPECT_DEATH(ledger->NotifyDurable(0, nullptr), "orders.db': NotifyDurable\\(\\) was called without a callback");
}

TEST(SqliteLedgerNotifyTest, NotifyDurable_OfWhatIsDurable_CallsWithinTheCall) {
  const TempDir dir;
  Listener listener;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  const uint64_t position = ledger->Append(AddSku("shoe", 10));
  ASSERT_TRUE(ledger->AwaitDurable(position).ok());
  listener.Ask(*ledger, position);
  listener.Ask(*ledger, 0);
  const std::vector<ToldDurable> told = listener.SoFar();
  ASSERT_EQ(told.size(), 2u);
  for (const ToldDurable& one : told) {
    EXPECT_TRUE(one.outcome.ok());
    EXPECT_EQ(one.thread, std::this_thread::get_id());
  }
}

TEST(SqliteLedgerNotifyTest, NotifyDurable_AfterReopen_KnowsWhatIsInTheFile) {
  const TempDir dir;
  OpenLedger(dir.File("orders.db"))->Append(AddSku("shoe", 10));
  Listener listener;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  listener.Ask(*ledger, 1);
  ASSERT_EQ(listener.SoFar().size(), 1u);
  EXPECT_TRUE(listener.SoFar()[0].outcome.ok());
}

TEST(SqliteLedgerNotifyTest, NotifyDurable_BeforeItIsDurable_CallsLaterOnOneThreadInAscendingOrder) {
  const TempDir dir;
  GateClock clock;
  Listener listener;
  const auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
  ledger->Append(AddSku("shoe", 100));
  clock.AwaitBatch();
  for (uint64_t id = 1; id <= 7; ++id) ledger->Append(Take(id, "shoe", 1));
  int call = 0;
  for (const uint64_t position : {5, 8, 2, 5, 1, 8, 3, 2, 7, 5}) listener.Ask(*ledger, position, ++call);
  EXPECT_TRUE(listener.SoFar().empty());
  clock.LetGo(1);
  EXPECT_EQ(listener.Await(1).size(), 1u);  // Of the first batch there is no more.
  clock.AwaitBatch();
  clock.LetGo(1);
  std::vector<std::pair<uint64_t, int>> order;
  for (const ToldDurable& one : listener.Await(10)) {
    EXPECT_TRUE(one.outcome.ok());
    EXPECT_NE(one.thread, std::this_thread::get_id());
    EXPECT_EQ(one.thread, listener.SoFar()[0].thread);
    order.emplace_back(one.position, one.call);
  }
  const std::vector<std::pair<uint64_t, int>> ascending = {{1, 5}, {2, 3},  {2, 8}, {3, 7}, {5, 1},
                                                           {5, 4}, {5, 10}, {7, 9}, {8, 2}, {8, 6}};
  EXPECT_EQ(order, ascending);
}

TEST(SqliteLedgerNotifyTest, NotifyDurable_WhenTheLedgerFails_TellsWhatIsOutstandingAndWhatComesLater) {
  const TempDir dir;
  GateClock clock;
  Listener listener;
  const auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
  listener.Ask(*ledger, ledger->Append(AddSku("shoe", 1)));
  clock.AwaitBatch();
  listener.Ask(*ledger, ledger->Append(Take(1, "shoe", 1)));
  listener.Ask(*ledger, ledger->Append(Take(2, "shoe", 1)));
  clock.LetGo(2);
  listener.Await(3);
  listener.Ask(*ledger, 1);
  listener.Ask(*ledger, 2);
  listener.Ask(*ledger, ledger->Append(Take(3, "shoe", 1)));
  const std::vector<ToldDurable> told = listener.SoFar();
  ASSERT_EQ(told.size(), 6u);
  const uint64_t positions[] = {1, 2, 3, 1, 2, 4};
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].position, positions[i]);
    EXPECT_EQ(told[i].outcome, told[i].position == 1 ? absl::OkStatus() : ledger->Health());
    EXPECT_EQ(told[i].thread == std::this_thread::get_id(), i >= 3);
  }
  EXPECT_EQ(ledger->Health().code(), absl::StatusCode::kUnavailable);
}

TEST(SqliteLedgerNotifyTest, Destructor_WithCallsOutstanding_CommitsAndCallsAllBeforeItReturns) {
  for (const bool fails : {false, true}) {
    const TempDir dir;
    Listener listener;
    {
      const auto ledger = OpenLedger(dir.File("orders.db"), {.max_batch_records = 3});
      listener.Ask(*ledger, ledger->Append(AddSku("shoe", fails ? 50 : 100)));
      for (uint64_t id = 1; id <= 100; ++id) listener.Ask(*ledger, ledger->Append(Take(id, "shoe", 1)));
    }
    const std::vector<ToldDurable> told = listener.SoFar();
    ASSERT_EQ(told.size(), 101u);
    const auto failed = std::ranges::count(told, absl::StatusCode::kUnavailable,
                                           [](const ToldDurable& one) { return one.outcome.code(); });
    const auto orders = static_cast<int64_t>(testing::Reopened(dir.File("orders.db")).orders.size());
    EXPECT_EQ(orders, 100 - failed);
    EXPECT_EQ(failed > 0, fails);
  }
}

TEST(SqliteLedgerNotifyTest, Done_ThatTakesItsTime_DelaysNoCommit) {
  const TempDir dir;
  GateClock clock;
  std::latch entered(1);
  std::latch leave(1);
  const auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
  ledger->NotifyDurable(ledger->Append(AddSku("shoe", 10)), [&](absl::Status) {
    entered.count_down();
    leave.wait();
  });
  clock.LetGo(2);
  entered.wait();
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(1, "shoe", 1))).ok());
  leave.count_down();
}

TEST(SqliteLedgerNotifyTest, Done_WhileCalled_MayUseTheLedger) {
  const TempDir dir;
  GateClock clock;
  Listener listener;
  const auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
  ledger->NotifyDurable(ledger->Append(AddSku("shoe", 10)), [&](absl::Status) {
    EXPECT_TRUE(ledger->Health().ok());
    listener.Ask(*ledger, 1);
    listener.Ask(*ledger, ledger->Append(Take(1, "shoe", 1)));
  });
  clock.LetGo(2);
  const std::vector<ToldDurable> told = listener.Await(2);
  EXPECT_EQ(told[0].position, 1u);
  EXPECT_EQ(told[1].position, 2u);
  EXPECT_TRUE(told[1].outcome.ok());
}

// Each is called once; OK for a prefix of the positions, which is what the file has.
TEST(SqliteLedgerNotifyTest, NotifyDurable_FromManyThreads_CallsEachOnceAndOkForAPrefix) {
  for (const bool fails : {false, true}) {
    const TempDir dir;
    constexpr uint64_t kThreads = 4;
    const uint64_t orders = static_cast<uint64_t>(Scaled(1000, 20'000));
    const int64_t stock = static_cast<int64_t>(kThreads * orders) / (fails ? 2 : 1);
    Listener listener;
    {
      const auto ledger = OpenLedger(dir.File("orders.db"), {.max_batch_records = 50, .max_queued_records = 100});
      ledger->Append(AddSku("shoe", stock));
      std::vector<std::thread> threads;
      for (uint64_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (uint64_t i = 0; i < orders; ++i) {
            const uint64_t position = ledger->Append(Take(1 + t * orders + i, "shoe", 1));
            if (i % 16 == 0) (void)ledger->AwaitDurable(position);  // Then it is known at the call, or nearly.
            listener.Ask(*ledger, position);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    const std::vector<ToldDurable> told = listener.SoFar();
    ASSERT_EQ(told.size(), kThreads * orders);
    std::vector<bool> seen(kThreads * orders + 2);
    std::vector<bool> ok(kThreads * orders + 2);
    for (const ToldDurable& one : told) {
      EXPECT_FALSE(seen[one.position]) << one.position;
      seen[one.position] = true;
      ok[one.position] = one.outcome.ok();
    }
    const size_t durable = testing::Reopened(dir.File("orders.db")).orders.size();
    EXPECT_EQ(durable < told.size(), fails);
    for (uint64_t position = 2; position < ok.size(); ++position) {
      ASSERT_EQ(ok[position], position < 2 + durable) << position;
    }
  }
}

TEST(SqliteLedgerNotifyDeathTest, NotifyDurable_OfAPositionNotGivenOut_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  EXPECT_DEATH(OpenLedger(dir.File("orders.db"))->NotifyDurable(1, [](absl::Status) {}),
               "NotifyDurable\\(1\\), but only 0");
}

}  // namespace
}  // namespace stockade
