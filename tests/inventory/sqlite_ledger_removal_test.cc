#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::AvailableIn;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::RemoveSku;
using ::stockade::testing::Reopened;
using ::stockade::testing::Reserve;
using ::stockade::testing::ReserveBasket;
using ::stockade::testing::Restock;
using ::stockade::testing::Settle;
using ::stockade::testing::SkuIn;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = LedgerRecord::Kind;

// 20 shoes: 2 sold, 3 held as order 2, 4 held with 1 lace as basket 3, and the 11 that are left withdrawn.
uint64_t AppendRemoval(SqliteLedger& ledger) {
  ledger.Append(AddSku("shoe", 20));
  ledger.Append(AddSku("lace", 5));
  ledger.Append(Take(1, "shoe", 2));
  ledger.Append(Reserve(2, "shoe", 3));
  ledger.Append(ReserveBasket(3, {{"shoe", 4}, {"lace", 1}}));
  return ledger.Append(RemoveSku("shoe", 11));
}

void ExpectStock(const LedgerState& state, int64_t shoes_granted, int64_t laces_available) {
  const LedgerState::Sku& shoe = SkuIn(state, "shoe");
  EXPECT_TRUE(shoe.removed);
  EXPECT_EQ(shoe.granted, shoes_granted);
  EXPECT_EQ(shoe.shards, 4);
  EXPECT_EQ(AvailableIn(state, "shoe"), 0);
  EXPECT_FALSE(SkuIn(state, "lace").removed);
  EXPECT_EQ(AvailableIn(state, "lace"), laces_available);
}

TEST(SqliteLedgerRemovalTest, Reopen_AfterARemoval_KeepsOnlyWhatIsHeldOrSold) {
  const TempDir dir;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"));
    EXPECT_TRUE(ledger->AwaitDurable(AppendRemoval(*ledger)).ok());
  }
  for (int i = 0; i < 2; ++i) {
    const LedgerState state = Reopened(dir.File("orders.db"));
    ExpectStock(state, 9, 4);
    EXPECT_EQ(state.orders.size(), 3u);
  }
  PlainSql sql(dir.File("orders.db"));
  EXPECT_THAT(sql.Query("SELECT kind, order_id, sku, quantity FROM journal WHERE position = 6"),
              ElementsAre(ElementsAre("remove_sku", "NULL", "shoe", "11")));
}

TEST(SqliteLedgerRemovalTest, Reopen_AfterTheRemovalOfASoldOutSku_HasIt) {
  const TempDir dir;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"));
    ledger->Append(AddSku("shoe", 2));
    ledger->Append(Take(1, "shoe", 2));
    EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(RemoveSku("shoe", 0))).ok());
  }
  const LedgerState state = Reopened(dir.File("orders.db"));
  EXPECT_TRUE(SkuIn(state, "shoe").removed);
  EXPECT_EQ(SkuIn(state, "shoe").granted, 2);
}

TEST(SqliteLedgerRemovalTest, Settle_AfterTheRemoval_WithdrawsWhatComesBack) {
  struct Case {
    Kind kind;
    int64_t granted;  // 9 were held or sold.
    int64_t laces;
  };
  constexpr Case kCases[] = {{Kind::kCommit, 9, 4}, {Kind::kCancel, 2, 5}, {Kind::kExpire, 2, 5}};
  for (const Case& end : kCases) {
    for (const bool reopen_between : {false, true}) {
      const TempDir dir;
      auto ledger = OpenLedger(dir.File("orders.db"));
      AppendRemoval(*ledger);
      if (reopen_between) {
        ledger.reset();
        ledger = OpenLedger(dir.File("orders.db"));
      }
      ledger->Append(Settle(end.kind, 2));
      EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Settle(end.kind, 3))).ok());
      ledger.reset();
      for (int i = 0; i < 2; ++i) ExpectStock(Reopened(dir.File("orders.db")), end.granted, end.laces);
    }
  }
}

TEST(SqliteLedgerRemovalTest, Append_ToARemovedSku_IsRefusedByName) {
  const std::pair<LedgerRecord, std::string> refused[] = {
      {Take(4, "shoe", 1), "SKU 'shoe' was removed"},
      {Reserve(4, "shoe", 1), "SKU 'shoe' was removed"},
      {ReserveBasket(4, {{"lace", 1}, {"shoe", 1}}), "SKU 'shoe' was removed"},
      {Restock("shoe", 1), "SKU 'shoe' was removed"},
      {AddSku("shoe", 1), "SKU 'shoe' was removed"},
      {RemoveSku("shoe", 0), "SKU 'shoe' was removed"},
      {RemoveSku("lace", 3), "SKU 'lace' has 4 units to withdraw, not 3"},
      {RemoveSku("lace", 5), "SKU 'lace' has 4 units to withdraw, not 5"},
      {RemoveSku("sock", 0), "unknown SKU 'sock'"},
  };
  for (const auto& [record, why] : refused) {
    for (const bool reopen_between : {false, true}) {
      SCOPED_TRACE(why);
      const TempDir dir;
      auto ledger = OpenLedger(dir.File("orders.db"));
      EXPECT_TRUE(ledger->AwaitDurable(AppendRemoval(*ledger)).ok());
      if (reopen_between) {
        ledger.reset();
        ledger = OpenLedger(dir.File("orders.db"));
      }
      const absl::Status failed = ledger->AwaitDurable(ledger->Append(record));
      EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(failed.message()), HasSubstr(why));
      ledger.reset();
      ExpectStock(Reopened(dir.File("orders.db")), 9, 4);
    }
  }
}

}  // namespace
}  // namespace stockade
