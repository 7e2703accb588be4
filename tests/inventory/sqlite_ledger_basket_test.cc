#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"
#include "stockade/base/manual_clock.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::AvailableIn;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::Reopened;
using ::stockade::testing::Reserve;
using ::stockade::testing::ReserveBasket;
using ::stockade::testing::Settle;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = LedgerRecord::Kind;

// Not in the order of their names.
const OrderLines& Lines() {
  static const OrderLines lines = {{"shoe", 3}, {"boot", 2}, {"lace", 1}};
  return lines;
}

// 10 of each, and basket 1, of Lines().
void AppendBasket(SqliteLedger& ledger) {
  for (const char* sku : {"lace", "shoe", "boot"}) ledger.Append(AddSku(sku, 10));
  EXPECT_TRUE(ledger.AwaitDurable(ledger.Append(ReserveBasket(1, Lines()))).ok());
}

void ExpectBasket(const LedgerState& state, OrderState order_state, absl::Time ended_at) {
  ASSERT_EQ(state.orders.size(), 1u);
  const LedgerState::Order& order = state.orders[0];
  EXPECT_EQ(order.order_id, 1u);
  EXPECT_EQ(order.request_id, "request-1");
  EXPECT_EQ(order.lines, Lines());
  EXPECT_EQ(order.buyer, "buyer-1");
  EXPECT_EQ(order.state, order_state);
  EXPECT_EQ(order.kind, LedgerRecord::Kind::kReserveBasket);
  EXPECT_EQ(order.expires_at, absl::FromUnixMicros(1'700'000'600'000'001));
  EXPECT_EQ(order.ttl, absl::Seconds(600));
  EXPECT_EQ(order.ended_at, ended_at);
  const bool back = order_state == OrderState::kCancelled || order_state == OrderState::kExpired;
  for (const OrderLine& line : Lines()) {
    EXPECT_EQ(AvailableIn(state, line.sku), back ? 10 : 10 - line.quantity) << line.sku;
  }
}

TEST(SqliteLedgerBasketTest, Reopen_AfterABasketIsHeld_GivesItsLinesInTheirOrder) {
  const TempDir dir;
  AppendBasket(*OpenLedger(dir.File("orders.db")));
  for (int i = 0; i < 2; ++i) {
    ExpectBasket(Reopened(dir.File("orders.db")), OrderState::kHeld, absl::InfiniteFuture());
  }
}

struct Ending {
  Kind kind;
  OrderState state;
};
constexpr Ending kEndings[] = {
    {Kind::kCommit, OrderState::kSold}, {Kind::kCancel, OrderState::kCancelled}, {Kind::kExpire, OrderState::kExpired}};

TEST(SqliteLedgerBasketTest, Settle_EachWay_SettlesAllLinesAtOnce) {
  for (const Ending& ending : kEndings) {
    for (const bool reopen_between : {false, true}) {
      const TempDir dir;
      ManualClock clock;
      auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
      AppendBasket(*ledger);
      if (reopen_between) {
        ledger.reset();
        ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
      }
      clock.Advance(absl::Seconds(7));
      EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Settle(ending.kind, 1))).ok());
      ledger.reset();
      for (int i = 0; i < 2; ++i) {
        ExpectBasket(Reopened(dir.File("orders.db")), ending.state, absl::FromUnixSeconds(1'700'000'007));
      }
    }
  }
}

TEST(SqliteLedgerBasketTest, Units_OfABasketGivenBack_CanBeTakenAgainAndNotBefore) {
  const TempDir dir;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  AppendBasket(*ledger);
  ledger->Append(Settle(Kind::kCancel, 1));
  ledger->Append(Take(2, "boot", 10));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(ReserveBasket(3, {{"lace", 10}, {"shoe", 9}}))).ok());
  const absl::Status more = ledger->AwaitDurable(ledger->Append(Take(4, "shoe", 2)));
  EXPECT_THAT(std::string(more.message()), HasSubstr("takes 2 units of SKU 'shoe', which has 1"));
}

TEST(SqliteLedgerBasketTest, Append_BasketThatCannotBe_FailsAsAWholeAndNamesTheSku) {
  const std::pair<LedgerRecord, std::string> refused[] = {
      {ReserveBasket(2, {{"lace", 1}, {"sock", 1}}), "(reserve_basket, order 2): unknown SKU 'sock'"},
      {ReserveBasket(2, {{"lace", 1}, {"boot", 9}}), "it takes 9 units of SKU 'boot', which has 8"},
      {ReserveBasket(2, {{"lace", 1}, {"boot", 1}, {"lace", 1}}), "SKU 'lace': UNIQUE"},
      {ReserveBasket(2, {{"lace", 1}, {"boot", 0}}), "0 units of SKU 'boot'"},
      {ReserveBasket(2, {{"lace", INT64_MIN}}), "units of SKU 'lace', but quantity > 0"},
      {ReserveBasket(2, {}), "a record with 0 lines"},
      {ReserveBasket(1, {{"lace", 1}}), "orders."},
      {ReserveBasket(0, {{"lace", 1}}), "order_id > 0"},
  };
  for (const auto& [record, why] : refused) {
    SCOPED_TRACE(why);
    const TempDir dir;
    auto ledger = OpenLedger(dir.File("orders.db"));
    AppendBasket(*ledger);
    const absl::Status failed = ledger->AwaitDurable(ledger->Append(record));
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(failed.message()), HasSubstr(why));
    EXPECT_EQ(ledger->Health(), failed);
    ledger.reset();
    ExpectBasket(Reopened(dir.File("orders.db")), OrderState::kHeld, absl::InfiniteFuture());
  }
}

TEST(SqliteLedgerBasketTest, PlainSql_OfABasket_ShowsItsLinesWithTheOrderAndWithEachPosition) {
  const TempDir dir;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"));
    AppendBasket(*ledger);
    ledger->Append(Reserve(2, "boot", 4));
    ledger->Append(Settle(Kind::kCancel, 1));
  }
  PlainSql sql(dir.File("orders.db"));
  EXPECT_THAT(sql.Query("SELECT order_id, line, sku, quantity FROM order_lines ORDER BY line"),
              ElementsAre(ElementsAre("1", "1", "shoe", "3"), ElementsAre("1", "2", "boot", "2"),
                          ElementsAre("1", "3", "lace", "1")));
  EXPECT_THAT(
      sql.Query("SELECT kind, order_id, sku, quantity FROM journal WHERE position IN (4, 6)"),
      ElementsAre(ElementsAre("reserve_basket", "1", "NULL", "NULL"), ElementsAre("cancel", "1", "NULL", "NULL")));
  EXPECT_THAT(sql.Query("SELECT position, sku, quantity FROM journal_lines WHERE line < 3 ORDER BY position, line"),
              ElementsAre(ElementsAre("4", "shoe", "3"), ElementsAre("4", "boot", "2"), ElementsAre("6", "shoe", "3"),
                          ElementsAre("6", "boot", "2")));
  // The audit of inventory/README.md.
  EXPECT_EQ(sql.QueryInt("SELECT sum(CASE WHEN kind IN ('add_sku', 'restock', 'cancel', 'expire') THEN quantity "
                         "WHEN kind IN ('reserve', 'take', 'reserve_basket') THEN -quantity ELSE 0 END) FROM "
                         "(SELECT kind, coalesce(j.sku, l.sku) AS sku, coalesce(j.quantity, l.quantity) AS quantity "
                         "FROM journal j LEFT JOIN journal_lines l USING (position)) WHERE sku = 'boot'"),
            6);
}

}  // namespace
}  // namespace stockade
