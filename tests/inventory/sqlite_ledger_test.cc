#include "stockade/inventory/sqlite_ledger.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"
#include "stockade/base/manual_clock.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::Reserve;
using ::stockade::testing::Scaled;
using ::stockade::testing::Settle;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using ::testing::ElementsAre;
using Kind = LedgerRecord::Kind;

// One of everything: 100 + 20 granted; 3 sold, 4 sold later, 5 cancelled, 6 expired, 7 held.
uint64_t AppendOneOfEverything(SqliteLedger& ledger) {
  LedgerRecord sku = AddSku("shoe", 100);
  sku.per_buyer_limit = 9;
  ledger.Append(sku);
  ledger.Append({.kind = Kind::kRestock, .lines = {{"shoe", 20}}});
  ledger.Append(Take(1, "shoe", 3));
  ledger.Append(Reserve(2, "shoe", 4));
  ledger.Append(Reserve(3, "shoe", 5));
  ledger.Append(Reserve(4, "shoe", 6));
  ledger.Append(Settle(Kind::kCommit, 2));
  ledger.Append(Settle(Kind::kCancel, 3));
  ledger.Append(Settle(Kind::kExpire, 4));
  return ledger.Append(Reserve(5, "shoe", 7));
}

void ExpectOneOfEverything(const LedgerState& state) {
  ASSERT_EQ(state.skus.size(), 1u);
  EXPECT_EQ(state.skus[0].sku, "shoe");
  EXPECT_EQ(state.skus[0].granted, 120);
  EXPECT_EQ(state.skus[0].shards, 4);
  EXPECT_EQ(state.skus[0].per_buyer_limit, 9);
  ASSERT_EQ(state.orders.size(), 5u);
  const OrderState states[] = {OrderState::kSold, OrderState::kSold, OrderState::kCancelled, OrderState::kExpired,
                               OrderState::kHeld};
  for (uint64_t i = 0; i < 5; ++i) {
    const LedgerState::Order& order = state.orders[i];
    EXPECT_EQ(order.order_id, i + 1);
    EXPECT_EQ(order.request_id, absl::StrCat("request-", i + 1));
    EXPECT_EQ(order.buyer, absl::StrCat("buyer-", i + 1));
    EXPECT_THAT(order.lines, ElementsAre(OrderLine{"shoe", static_cast<int64_t>(i) + 3}));
    EXPECT_EQ(order.state, states[i]);
    EXPECT_EQ(order.kind, i == 0 ? Kind::kTake : Kind::kReserve);
    EXPECT_EQ(order.expires_at, i == 0 ? absl::InfiniteFuture() : absl::FromUnixMicros(1'700'000'600'000'001));
    EXPECT_EQ(order.ended_at == absl::InfiniteFuture(), order.state == OrderState::kHeld);
    EXPECT_EQ(order.ttl, i == 0 ? absl::InfiniteDuration() : absl::Seconds(600));
  }
}

TEST(SqliteLedgerTest, Open_NewFile_IsEmptyAndHealthy) {
  const TempDir dir;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  const LedgerState state = ledger->TakeRecovered();
  EXPECT_TRUE(state.skus.empty());
  EXPECT_TRUE(state.orders.empty());
  EXPECT_TRUE(ledger->Health().ok());
  EXPECT_TRUE(ledger->AwaitDurable(0).ok());
}

TEST(SqliteLedgerTest, Reopen_AfterEveryKindOfRecord_GivesTheSameState) {
  const TempDir dir;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"));
    EXPECT_EQ(AppendOneOfEverything(*ledger), 10u);
    EXPECT_TRUE(ledger->AwaitDurable(10).ok());
  }
  for (int i = 0; i < 2; ++i) ExpectOneOfEverything(OpenLedger(dir.File("orders.db"))->TakeRecovered());
}

TEST(SqliteLedgerTest, EndedAt_AfterReopen_IsTheWallTimeOfTheBatch) {
  const TempDir dir;
  ManualClock clock;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
    ledger->Append(AddSku("shoe", 100));
    for (uint64_t id = 1; id <= 4; ++id) ledger->Append(Reserve(id, "shoe", 1));
    EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(5, "shoe", 1))).ok());
    for (const auto& [kind, id] : {std::pair{Kind::kCommit, 1}, {Kind::kCancel, 2}, {Kind::kExpire, 3}}) {
      clock.Advance(absl::Seconds(1) + absl::Nanoseconds(999));
      EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Settle(kind, static_cast<uint64_t>(id)))).ok());
    }
  }
  const LedgerState state = OpenLedger(dir.File("orders.db"))->TakeRecovered();
  ASSERT_EQ(state.orders.size(), 5u);
  const absl::Time start = absl::FromUnixSeconds(1'700'000'000);
  EXPECT_EQ(state.orders[0].ended_at, start + absl::Seconds(1));  // Rounded down.
  EXPECT_EQ(state.orders[1].ended_at, start + absl::Seconds(2) + absl::Microseconds(1));
  EXPECT_EQ(state.orders[2].ended_at, start + absl::Seconds(3) + absl::Microseconds(2));
  EXPECT_EQ(state.orders[3].ended_at, absl::InfiniteFuture());
  EXPECT_EQ(state.orders[4].ended_at, start);
}

TEST(SqliteLedgerTest, Destructor_WithRecordsQueued_CommitsThem) {
  const TempDir dir;
  AppendOneOfEverything(*OpenLedger(dir.File("orders.db"), {.max_batch_records = 3}));
  ExpectOneOfEverything(OpenLedger(dir.File("orders.db"))->TakeRecovered());
}

TEST(SqliteLedgerTest, Append_AfterReopen_GoesOnWithThePositions) {
  const TempDir dir;
  AppendOneOfEverything(*OpenLedger(dir.File("orders.db")));
  const auto ledger = OpenLedger(dir.File("orders.db"));
  EXPECT_TRUE(ledger->AwaitDurable(10).ok());
  EXPECT_EQ(ledger->Append(Settle(Kind::kCommit, 5)), 11u);
  EXPECT_TRUE(ledger->AwaitDurable(11).ok());
}

TEST(SqliteLedgerTest, Reopen_WithBytesThatAreNoText_GivesThemBack) {
  const TempDir dir;
  const std::string odd("a\0'; --\xff\n\xc3\xa4", 11);
  LedgerRecord take = Take(1, odd, 1);
  take.request_id = odd;
  take.buyer = "";
  LedgerRecord basket = testing::ReserveBasket(2, {{odd, 1}});
  basket.request_id = odd + "2";
  basket.buyer = odd;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"));
    ledger->Append(AddSku(odd, 2));
    ledger->Append(take);
    EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(basket)).ok());
  }
  const LedgerState state = OpenLedger(dir.File("orders.db"))->TakeRecovered();
  ASSERT_EQ(state.orders.size(), 2u);
  EXPECT_EQ(state.skus[0].sku, odd);
  EXPECT_EQ(state.orders[0].lines[0].sku, odd);
  EXPECT_EQ(state.orders[0].request_id, odd);
  EXPECT_EQ(state.orders[0].buyer, "");
  EXPECT_EQ(state.orders[1].request_id, odd + "2");
  EXPECT_EQ(state.orders[1].buyer, odd);
  EXPECT_THAT(state.orders[1].lines, ElementsAre(OrderLine{odd, 1}));
}

TEST(SqliteLedgerTest, Audit_ByPlainSql_AgreesWithTakeRecovered) {
  const TempDir dir;
  ManualClock clock;
  AppendOneOfEverything(*OpenLedger(dir.File("orders.db"), {.clock = &clock}));
  const LedgerState state = OpenLedger(dir.File("orders.db"))->TakeRecovered();
  int64_t taken = 0;
  for (const LedgerState::Order& order : state.orders) {
    if (order.state == OrderState::kHeld || order.state == OrderState::kSold) taken += order.lines[0].quantity;
  }
  PlainSql sql(dir.File("orders.db"));
  EXPECT_EQ(sql.QueryInt("SELECT sum(quantity) FROM orders WHERE state IN ('held', 'sold')"), taken);
  EXPECT_EQ(sql.QueryInt("SELECT granted FROM skus WHERE sku = 'shoe'"), state.skus[0].granted);
  EXPECT_EQ(sql.QueryInt("SELECT sum(CASE WHEN kind IN ('add_sku', 'restock', 'cancel', 'expire') THEN quantity "
                         "WHEN kind IN ('reserve', 'take') THEN -quantity ELSE 0 END) FROM journal"),
            state.skus[0].granted - taken);
  EXPECT_THAT(sql.Query("SELECT position, at_us, kind, order_id, sku, quantity FROM journal WHERE position IN (2, 7)"),
              ElementsAre(ElementsAre("2", "1700000000000000", "restock", "NULL", "shoe", "20"),
                          ElementsAre("7", "1700000000000000", "commit", "2", "shoe", "4")));
  EXPECT_THAT(sql.Query("SELECT * FROM orders WHERE order_id IN (1, 3)"),
              ElementsAre(ElementsAre("1", "request-1", "shoe", "3", "buyer-1", "sold", "0", "NULL", "NULL",
                                      "1700000000000000", "1700000000000000", "3", "0", "0"),
                          ElementsAre("3", "request-3", "shoe", "5", "buyer-3", "cancelled", "1", "1700000600000001",
                                      "600000000", "1700000000000000", "1700000000000000", "5", "0", "0")));
}

TEST(SqliteLedgerTest, Append_FromManyThreads_KeepsEachThreadsOrderInFewerCommitsThanRecords) {
  const TempDir dir;
  constexpr uint64_t kThreads = 8;
  const uint64_t orders = static_cast<uint64_t>(Scaled(500, 20'000));
  MetricsRegistry registry;
  {
    auto ledger = SqliteLedger::Open(dir.File("orders.db"),
                                     {.max_batch_records = 64, .max_queued_records = 100, .metrics = &registry})
                      .value();
    ledger->Append(AddSku("shoe", static_cast<int64_t>(kThreads * orders)));
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        uint64_t last = 0;
        for (uint64_t i = 0; i < orders; ++i) {
          const uint64_t position = ledger->Append(Take(1 + t * orders + i, "shoe", 1));
          EXPECT_GT(position, last);
          last = position;
          if (i % 8 != 0) continue;
          EXPECT_TRUE(ledger->AwaitDurable(position).ok());
        }
        EXPECT_TRUE(ledger->AwaitDurable(last).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  double records = 0;
  double commits = 0;
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name == "stockade_ledger_records_total") records = family.metric[0].counter.value;
    if (family.name != "stockade_ledger_commits_total") continue;
    for (const prometheus::ClientMetric& metric : family.metric) commits += metric.counter.value;
  }
  EXPECT_EQ(records, static_cast<double>(kThreads * orders + 1));
  EXPECT_LT(commits, records / 2);
  PlainSql sql(dir.File("orders.db"));
  EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM orders"), static_cast<int64_t>(kThreads * orders));
  // Order ids of one thread lie in one range: none may come after a higher one of its range.
  EXPECT_EQ(sql.QueryInt(absl::StrCat("SELECT count(*) FROM (SELECT order_id, lag(order_id) OVER (PARTITION BY "
                                      "(order_id - 1) / ",
                                      orders, " ORDER BY position) AS before FROM journal WHERE kind = 'take') ",
                                      "WHERE before >= order_id")),
            0);
}

TEST(SqliteLedgerDeathTest, AwaitDurable_OfAPositionNotGivenOut_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  EXPECT_DEATH((void)OpenLedger(dir.File("orders.db"))->AwaitDurable(1), "AwaitDurable\\(1\\), but only 0");
}

TEST(SqliteLedgerDeathTest, TakeRecovered_Twice_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  EXPECT_DEATH(
      {
        const auto ledger = OpenLedger(dir.File("orders.db"));
        (void)ledger->TakeRecovered();
        (void)ledger->TakeRecovered();
      },
      "TakeRecovered\\(\\) called again");
}

}  // namespace
}  // namespace stockade
