// Files that somebody has changed: what the tables' constraints refuse, and what opening finds out.

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/page_checksums.h"
#include "inventory/sqlite_ledger_support.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::MakePrunedLedger;
using ::stockade::testing::MendPageChecksums;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::RemoveSku;
using ::stockade::testing::Reserve;
using ::stockade::testing::ReserveBasket;
using ::stockade::testing::RestockOnce;
using ::stockade::testing::Settle;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using ::testing::HasSubstr;

// A closed ledger. Positions 1 to 3: 10 shoes, 10 laces, 10 hats; 4 and 5: orders 1 (sold) and 2 (held) of 4 shoes
// each; 6 and 7: baskets 3 and 4 of 1 shoe and 2 laces; 8: basket 4 cancelled; 9: order 5 of 3 hats; 10: hats removed.
void MakeLedger(const std::string& path) {
  const auto ledger = OpenLedger(path);
  for (const char* sku : {"shoe", "lace", "hat"}) ledger->Append(AddSku(sku, 10));
  ledger->Append(Take(1, "shoe", 4));
  ledger->Append(Reserve(2, "shoe", 4));
  ledger->Append(ReserveBasket(3, {{"shoe", 1}, {"lace", 2}}));
  ledger->Append(ReserveBasket(4, {{"shoe", 1}, {"lace", 2}}));
  ledger->Append(Settle(LedgerRecord::Kind::kCancel, 4));
  ledger->Append(Reserve(5, "hat", 3));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(RemoveSku("hat", 7))).ok());
}

void ExpectDataLoss(const std::string& damage, const std::string& text,
                    void (*make)(const std::string& path) = MakeLedger) {
  SCOPED_TRACE(damage);
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  make(path);
  PlainSql(path).Run(damage);
  MendPageChecksums(path);
  const absl::Status status = SqliteLedger::Open(path, {.metrics = nullptr}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

void ExpectDataLossOfPruned(const std::string& damage, const std::string& text) {
  ExpectDataLoss(damage, text, MakePrunedLedger);
}

// Positions 1 and 2: 10 shoes, order 1 of 4; 3: order 1 expires a minute later.
void MakeExtended(const std::string& path) {
  const auto ledger = OpenLedger(path);
  ledger->Append(AddSku("shoe", 10));
  ledger->Append(Reserve(1, "shoe", 4));
  const LedgerRecord later = {.kind = LedgerRecord::Kind::kExtend, .order_id = 1, .extended = absl::Minutes(1)};
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(later)).ok());
}

TEST(SqliteLedgerDamageTest, Open_ExtensionsThatDisagree_IsDataLossNamingIt) {
  ExpectDataLoss("UPDATE orders SET extended_us = 0",
                 "position 3 (extend): order 1 is not extended in the table of orders", MakeExtended);
  ExpectDataLoss("DELETE FROM journal WHERE kind = 'extend'", "order 1 is extended, but not in the journal",
                 MakeExtended);
}

LedgerRecord Return(LedgerRecord::Kind kind, uint64_t order_id, uint64_t change_id, OrderLines lines) {
  return {.kind = kind,
          .order_id = order_id,
          .change_id = change_id,
          .request_id = absl::StrCat("request-", change_id),
          .lines = std::move(lines)};
}

// As MakeLedger(); 11: basket 3 is sold; 12 to 14: 2 shoes of order 1 come back, all of basket 3, and 1 shoe of order
// 1, which is written off.
void MakeReturned(const std::string& path) {
  using Kind = LedgerRecord::Kind;
  MakeLedger(path);
  const auto ledger = OpenLedger(path);
  ledger->Append(Settle(Kind::kCommit, 3));
  ledger->Append(Return(Kind::kReturn, 1, 11, {{"shoe", 2}}));
  ledger->Append(Return(Kind::kReturn, 3, 12, {{"lace", 2}, {"shoe", 1}}));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Return(Kind::kWriteOff, 1, 13, {{"shoe", 1}}))).ok());
}

TEST(SqliteLedgerDamageTest, Open_ReturnsThatDoNotAddUp_IsDataLossNamingIt) {
  const auto lost = [](const std::string& damage, const std::string& text) {
    ExpectDataLoss(damage, text, MakeReturned);
  };
  const TempDir dir;
  MakeReturned(dir.File("orders.db"));
  EXPECT_NE(OpenLedger(dir.File("orders.db")), nullptr);
  lost("DELETE FROM changes WHERE change_id = 11", "change_lines: position 12 is not in the table of changes");
  lost("DELETE FROM changes WHERE change_id = 11; DELETE FROM change_lines WHERE position = 12",
       "return of order 1 is not the next one in the table of changes");
  lost("DELETE FROM changes WHERE change_id = 13; DELETE FROM change_lines WHERE position = 14",
       "return of order 1 is not in the table of changes");
  lost("DELETE FROM journal WHERE position = 14", "return 13 is not in the journal");
  lost("UPDATE changes SET order_id = 3 WHERE change_id = 11", "which its order does not have left");
  lost("UPDATE changes SET order_id = 2 WHERE change_id = 11", "return 11 is of order 2, which is not sold");
  lost("UPDATE changes SET order_id = 9 WHERE change_id = 11", "return 11 is of order 9, which is not sold");
  lost("UPDATE changes SET kind = 'write_off' WHERE change_id = 11", "is not the next one");
  lost("UPDATE changes SET at_us = 1 WHERE change_id = 12", "return of order 3 has another time");
  lost("UPDATE changes SET request_id = 'request-1' WHERE change_id = 12",
       "return 12: another order has its request id 'request-1', too");
  lost("UPDATE change_lines SET quantity = 1 WHERE position = 12", "return of order 1 has other units");
  lost("UPDATE change_lines SET to_stock = 1 WHERE position = 14", "return of order 1 has other units");
  lost("UPDATE change_lines SET quantity = 4 WHERE position = 12",
       "return 13 has 1 units of SKU 'shoe', which its order does not have left");
  lost("DELETE FROM change_lines WHERE position = 13 AND sku = 'shoe'", "return of order 3 has other units");
  lost("DELETE FROM change_lines WHERE position = 12", "return 11 has another kind, or no lines");
  lost("DELETE FROM journal_lines WHERE position = 13", "journal_lines: the basket 13 has no lines");
  lost("UPDATE orders SET end_folded = 1 WHERE order_id = 1", "order 1 has ended before it was granted");
}

// An order may be pruned before the return gets here: what the ledger refuses, the inventory undoes.
TEST(SqliteLedgerDamageTest, Append_OfAReturnWithoutItsSale_IsRefused) {
  const TempDir dir;
  MakeReturned(dir.File("orders.db"));
  const auto ledger = OpenLedger(dir.File("orders.db"));
  for (const uint64_t order : {2, 4, 9}) {
    const absl::Status refused =
        ledger->AwaitDurable(ledger->Append(Return(LedgerRecord::Kind::kReturn, order, 21, {{"shoe", 1}})));
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("no such order is sold"));
    EXPECT_EQ(ledger->TakeRefused().size(), 1u);
  }
  EXPECT_EQ(ledger->Health(), absl::OkStatus());
}

// What an inventory never asks for.
TEST(SqliteLedgerDamageTest, Append_OfAReturnThatCannotBe_FailsTheLedger) {
  using Kind = LedgerRecord::Kind;
  const std::pair<LedgerRecord, std::string> wrong[] = {
      {Return(Kind::kReturn, 1, 21, {}), "a return without lines"},
      {Return(Kind::kReturn, 1, 21, {{"shoe", 2}}), "2 units of SKU 'shoe' come back, of which the order has 1 left"},
      {Return(Kind::kReturn, 1, 21, {{"shoe", 0}}), "0 units of SKU 'shoe' come back"},
      {Return(Kind::kReturn, 1, 21, {{"lace", 1}}), "of which the order has 0 left"},
      {Return(Kind::kWriteOff, 1, 11, {{"shoe", 1}}), "request id 'request-11' is that of order 1"},
      {Return(Kind::kWriteOff, 1, 0, {{"shoe", 1}}), "CHECK constraint failed"},
  };
  for (const auto& [record, text] : wrong) {
    const TempDir dir;
    MakeReturned(dir.File("orders.db"));
    const auto ledger = OpenLedger(dir.File("orders.db"));
    const absl::Status failed = ledger->AwaitDurable(ledger->Append(record));
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable) << text;
    EXPECT_THAT(std::string(failed.message()), HasSubstr(text));
  }
}

TEST(SqliteLedgerDamageTest, Open_Unchanged_IsOk) {
  const TempDir dir;
  MakeLedger(dir.File("orders.db"));
  EXPECT_NE(OpenLedger(dir.File("orders.db")), nullptr);
  MakePrunedLedger(dir.File("pruned.db"));
  EXPECT_NE(OpenLedger(dir.File("pruned.db")), nullptr);
}

TEST(SqliteLedgerDamageTest, Open_SkusThatDoNotAddUp_IsDataLossNamingIt) {
  ExpectDataLoss("UPDATE skus SET granted = 7 WHERE sku = 'shoe'",
                 "SKU 'shoe': 7 granted, but 10 according to the journal");
  ExpectDataLoss("UPDATE skus SET removed = 0", "SKU 'hat' is not removed, but removed according to the journal");
  ExpectDataLoss("UPDATE skus SET removed = 1 WHERE sku = 'lace'",
                 "SKU 'lace' is removed, but not according to the journal");
  ExpectDataLoss("DELETE FROM skus WHERE sku = 'lace'", "not in the table of SKUs");
  ExpectDataLoss("INSERT INTO skus VALUES('sock', 0, 1, 0, 0, 0, NULL, NULL, NULL)",
                 "SKU 'sock' is not in the journal");
}

TEST(SqliteLedgerDamageTest, Open_OrdersThatDoNotAddUp_IsDataLossNamingIt) {
  ExpectDataLoss("UPDATE orders SET state = 'cancelled', reserved = 1 WHERE order_id = 1",
                 "order 1 has another kind in the table of orders");
  ExpectDataLoss("UPDATE orders SET state = 'sold', settled_at_us = 1 WHERE order_id = 2",
                 "order 2 is sold, but held according to the journal");
  ExpectDataLoss("UPDATE orders SET state = 'held', settled_at_us = NULL WHERE order_id = 4",
                 "order 4 ended at another");
  ExpectDataLoss("UPDATE orders SET settled_at_us = settled_at_us + 1 WHERE order_id = 1", "order 1 ended at another");
  ExpectDataLoss("UPDATE orders SET sku = 'boot' WHERE order_id = 2", "order 2 has other units");
  ExpectDataLoss("UPDATE orders SET quantity = 3 WHERE order_id = 2", "order 2 has other units");
  ExpectDataLoss("DELETE FROM orders WHERE order_id = 2", "order 2 is not in the table of orders");
  ExpectDataLoss("UPDATE orders SET request_id = 'request-1' WHERE order_id = 2",
                 "order 2: another order has its request id 'request-1', too");
  ExpectDataLoss("UPDATE orders SET position = 12 WHERE order_id = 2", "order 2 has another position");
  ExpectDataLoss("DELETE FROM ledger", "the table ledger is empty");
  ExpectDataLoss(
      "INSERT INTO orders SELECT 9, 'another', sku, quantity, buyer, state, reserved, expires_at_us, ttl_us, "
      "created_at_us, settled_at_us, 11, 0, 0 FROM orders WHERE order_id = 1",
      "order 9 is sold, but unknown according to the journal");
  ExpectDataLoss("PRAGMA ignore_check_constraints = ON; UPDATE orders SET quantity = -4 WHERE order_id = 2",
                 "quick_check");
}

TEST(SqliteLedgerDamageTest, Open_RestocksThatDoNotAddUp_IsDataLossNamingIt) {
  const auto make = [](const std::string& path) {
    MakeLedger(path);
    const auto ledger = OpenLedger(path);
    ledger->Append(RestockOnce(7, "shoe", 2));
    EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(RestockOnce(8, "shoe", 3))).ok());
  };
  ExpectDataLoss("DELETE FROM restocks WHERE order_id = 7", "restock 7 is not the next one in the table", make);
  ExpectDataLoss("DELETE FROM restocks WHERE order_id = 8", "restock 8 is not in the table of restocks", make);
  ExpectDataLoss("UPDATE journal SET order_id = NULL WHERE order_id = 7", "restock 8 is not the next one", make);
  ExpectDataLoss("UPDATE journal SET order_id = NULL WHERE order_id >= 7", "restock 7 is not in the journal", make);
  ExpectDataLoss("UPDATE restocks SET quantity = 3 WHERE order_id = 7", "restock 7 has other units", make);
  ExpectDataLoss("UPDATE restocks SET sku = 'lace' WHERE order_id = 7", "restock 7 has other units", make);
  ExpectDataLoss("UPDATE restocks SET at_us = 1 WHERE order_id = 8", "restock 8 has another time", make);
  ExpectDataLoss("UPDATE restocks SET request_id = 'request-2' WHERE order_id = 8",
                 "restock 8: another order has its request id 'request-2', too", make);
}

TEST(SqliteLedgerDamageTest, Open_LinesThatDoNotAddUp_IsDataLossNamingIt) {
  ExpectDataLoss("DELETE FROM order_lines WHERE order_id = 3 AND sku = 'lace'", "order 3 has other units");
  ExpectDataLoss("DELETE FROM order_lines WHERE order_id = 4 AND sku = 'lace'", "order 4 has other units");
  ExpectDataLoss("DELETE FROM order_lines WHERE order_id = 3", "order_lines: the basket 3 has no lines");
  ExpectDataLoss("DELETE FROM order_lines WHERE order_id = 4", "order_lines: the basket 4 has no lines");
  ExpectDataLoss("UPDATE order_lines SET quantity = 3 WHERE order_id = 4 AND sku = 'lace'", "order 4 has other units");
  ExpectDataLoss("UPDATE order_lines SET sku = 'hat' WHERE order_id = 4 AND sku = 'lace'", "order 4 has other units");
  ExpectDataLoss("UPDATE order_lines SET line = 3 WHERE order_id = 4 AND line = 1", "order 4 has other units");
  ExpectDataLoss("INSERT INTO order_lines VALUES(2, 1, 'lace', 1)",
                 "order_lines: there are lines of 2, which is not a basket");
  ExpectDataLoss("INSERT INTO order_lines VALUES(7, 1, 'lace', 1)",
                 "order_lines: there are lines of 7, which is not a basket");
  ExpectDataLoss("DELETE FROM journal_lines WHERE position = 6 AND line = 2", "order 3 has other units");
  ExpectDataLoss("DELETE FROM journal_lines WHERE position = 8", "journal_lines: the basket 8 has no lines");
  ExpectDataLoss("UPDATE journal_lines SET quantity = 1 WHERE position = 8", "order 4 has other units");
  ExpectDataLoss("INSERT INTO journal_lines VALUES(10, 1, 'lace', 1)", "there are lines of 10, which is not a basket");
  ExpectDataLoss("DROP TABLE order_lines", "no such table: order_lines");
}

TEST(SqliteLedgerDamageTest, Open_JournalThatDoesNotAddUp_IsDataLossNamingIt) {
  ExpectDataLoss("DELETE FROM journal WHERE position = 4", "position 4 is missing");
  ExpectDataLoss("DELETE FROM journal WHERE position = 10", "SKU 'hat' is removed, but not according to the journal");
  ExpectDataLoss("DELETE FROM journal WHERE position >= 9", "order 5 is held, but unknown according to the journal");
  ExpectDataLoss(
      "UPDATE journal SET quantity = 40 WHERE position = 4; UPDATE orders SET quantity = 40 WHERE order_id = 1",
      "position 4 (take): it takes 40 units of SKU 'shoe', which has 10");
  ExpectDataLoss("UPDATE journal SET quantity = 6 WHERE position = 10", "SKU 'hat' has 7 units to withdraw, not 6");
  ExpectDataLoss("UPDATE journal SET kind = 'expire' WHERE position = 8",
                 "order 4 is cancelled, but expired according to the journal");
  ExpectDataLoss("UPDATE journal SET kind = 'commit' WHERE position = 7", "position 7 (commit): order 4 is not held");
  ExpectDataLoss("UPDATE journal SET order_id = 1 WHERE position = 5",
                 "position 5 (reserve): order 1 is granted twice");
  ExpectDataLoss("INSERT INTO journal VALUES(11, 1, 'take', 6, 'hat', 1)", "order 6 is not in the table of orders");
  ExpectDataLoss("INSERT INTO journal VALUES(11, 1, 'restock', NULL, 'hat', 1)", "(restock): SKU 'hat' was removed");
  ExpectDataLoss("DROP TABLE journal", "no such table: journal");
}

TEST(SqliteLedgerDamageTest, Open_StartThatDoesNotAddUp_IsDataLossNamingIt) {
  ExpectDataLossOfPruned("UPDATE skus SET sold_forgotten = 2 WHERE sku = 'lace'",
                         "SKU 'lace': start_available is 8, but start_granted 15 less sold_forgotten 2 less the units "
                         "of orders there is 9");
  ExpectDataLossOfPruned("UPDATE skus SET sold_forgotten = 4 WHERE sku = 'lace'",
                         "SKU 'lace': start_available is 8, but start_granted 15 less sold_forgotten 4 less the units "
                         "of orders there is 7");
  // Both, so that the journal leads from the one to the other.
  ExpectDataLossOfPruned("UPDATE skus SET start_granted = 16, granted = granted + 1 WHERE sku = 'lace'",
                         "SKU 'lace': start_available is 8, but start_granted 16 less sold_forgotten 3 less the units "
                         "of orders there is 9");
  ExpectDataLossOfPruned("UPDATE skus SET start_granted = 2001 WHERE sku = 'shoe'",
                         "SKU 'shoe': start_available is 985, but start_granted 2001 less sold_forgotten 1015 less "
                         "the units of orders there is 986");
  ExpectDataLossOfPruned("UPDATE skus SET start_granted = 1, granted = 1 WHERE sku = 'hat'",
                         "SKU 'hat': start_available is 0, but start_granted 1 less sold_forgotten 0 less the units "
                         "of orders there is 1");
  ExpectDataLossOfPruned("UPDATE skus SET start_available = 7 WHERE sku = 'lace'",
                         "SKU 'lace': start_available is 7, but start_granted 15 less sold_forgotten 3 less the units "
                         "of orders there is 8");
  ExpectDataLossOfPruned("DELETE FROM orders WHERE order_id = 1",
                         "SKU 'lace': start_available is 8, but start_granted 15 less sold_forgotten 3 less the units "
                         "of orders there is 12");
  ExpectDataLossOfPruned("UPDATE skus SET start_removed = 0 WHERE sku = 'hat'",
                         "SKU 'hat' is removed, but not according to the journal");
  ExpectDataLossOfPruned(
      "PRAGMA ignore_check_constraints = ON; UPDATE skus SET start_available = NULL WHERE sku = 'lace'", "quick_check");
}

TEST(SqliteLedgerDamageTest, Open_BoughtThatDoesNotAddUp_IsDataLossNamingIt) {
  ExpectDataLossOfPruned("DELETE FROM bought WHERE buyer = 'buyer-10'",
                         "bought: of SKU 'shoe' 1 of sold_forgotten 1015 have no buyer");
  ExpectDataLossOfPruned(
      "INSERT INTO bought VALUES('shoe', 'zoe', 2)",
      "bought: buyer 'zoe' has 2 units of SKU 'shoe', of which forgotten orders have sold only 0 more");
  ExpectDataLossOfPruned("UPDATE bought SET units = 9223372036854775807 WHERE buyer = 'buyer-4'",
                         "bought: buyer 'buyer-4' has 9223372036854775807 units of SKU 'shoe', of which forgotten ");
  ExpectDataLossOfPruned(
      "INSERT INTO bought VALUES('lace', 'ann', 1)",
      "bought: buyer 'ann' has 1 units of SKU 'lace', of which forgotten orders have sold only 0 more");
  ExpectDataLossOfPruned(
      "INSERT INTO bought VALUES('hat', 'ann', 1)",
      "bought: buyer 'ann' has 1 units of SKU 'hat', of which forgotten orders have sold only 0 more");
  ExpectDataLossOfPruned(
      "INSERT INTO bought VALUES('sock', 'ann', 1)",
      "bought: buyer 'ann' has 1 units of SKU 'sock', of which forgotten orders have sold only 0 more");
  ExpectDataLossOfPruned(
      "UPDATE skus SET per_buyer_limit = 0 WHERE sku = 'shoe'",
      "bought: buyer 'buyer-10' has 1 units of SKU 'shoe', of which forgotten orders have sold only 0 more");
  ExpectDataLossOfPruned("UPDATE skus SET per_buyer_limit = 5 WHERE sku = 'lace'",
                         "bought: of SKU 'lace' 3 of sold_forgotten 3 have no buyer");
}

TEST(SqliteLedgerDamageTest, PlainSql_WhatCannotBe_IsRefusedByTheTables) {
  const TempDir dir;
  MakeLedger(dir.File("orders.db"));
  PlainSql sql(dir.File("orders.db"));
  sql.Run("PRAGMA foreign_keys = ON");
  for (const std::string change : {
           "INSERT INTO skus VALUES('shoe', 0, 1, 0, 0, 0, NULL, NULL, NULL)",
           "UPDATE skus SET granted = -1",
           "UPDATE skus SET granted = granted + 9223372036854775807",
           "UPDATE skus SET removed = 2",
           "UPDATE skus SET sold_forgotten = -1",
           "UPDATE skus SET sold_forgotten = 1",
           "UPDATE skus SET start_granted = 1",
           "UPDATE skus SET start_granted = 1, start_removed = 0",
           "UPDATE skus SET start_granted = 1, start_available = 0, start_removed = 2",
           "UPDATE skus SET start_granted = 1, start_available = 1, start_removed = 1",
           "UPDATE skus SET start_granted = 1, start_available = -1, start_removed = 0",
           "UPDATE skus SET start_granted = 1, start_available = 2, start_removed = 0",
           "UPDATE skus SET start_granted = 1, start_available = 0, start_removed = 0, sold_forgotten = 2",
           "INSERT INTO ledger SELECT 2, 0, 0, fingerprint_key, 0 FROM ledger",
           "UPDATE ledger SET fingerprint_key = x'00'",
           "INSERT INTO bought VALUES('sock', 'ann', 1)",
           "INSERT INTO bought VALUES('shoe', 'ann', 0)",
           "INSERT INTO forgotten VALUES(1, x'00')",
           "INSERT INTO forgotten VALUES(1, x'')",
           "UPDATE orders SET quantity = 0 WHERE order_id = 2",
           "UPDATE orders SET sku = NULL WHERE order_id = 2",
           "UPDATE orders SET sku = 'sock' WHERE order_id = 2",
           "UPDATE orders SET sku = NULL, quantity = NULL WHERE order_id = 1",
           "UPDATE orders SET state = 'sold' WHERE order_id = 2",
           "UPDATE orders SET settled_at_us = NULL WHERE order_id = 1",
           "UPDATE orders SET state = 'gone' WHERE order_id = 2",
           "UPDATE orders SET expires_at_us = 1 WHERE order_id = 1",
           "INSERT INTO order_lines VALUES(3, 3, 'shoe', 1)",
           "INSERT INTO order_lines VALUES(3, 3, 'hat', 0)",
           "INSERT INTO order_lines VALUES(3, 3, 'sock', 1)",
           "INSERT INTO order_lines VALUES(77, 1, 'hat', 1)",
           "INSERT INTO journal VALUES(10, 1, 'restock', NULL, 'shoe', 1)",
           "INSERT INTO journal VALUES(11, 1, 'restock', NULL, 'shoe', 0)",
           "INSERT INTO journal VALUES(11, 1, 'restock', 1, NULL, NULL)",
           "INSERT INTO journal VALUES(11, 1, 'remove_sku', NULL, 'shoe', -1)",
           "INSERT INTO journal VALUES(11, 1, 'remove_sku', NULL, NULL, NULL)",
           "INSERT INTO journal VALUES(11, 1, 'take', NULL, 'shoe', 1)",
           "INSERT INTO journal VALUES(11, 1, 'take', 9, NULL, NULL)",
           "INSERT INTO journal VALUES(11, 1, 'reserve_basket', 9, 'shoe', 1)",
           "INSERT INTO journal VALUES(11, 1, 'reserve_basket', 9, NULL, 1)",
           "INSERT INTO journal VALUES(11, 1, 'stolen', 9, 'shoe', 1)",
           "INSERT INTO journal_lines VALUES(77, 1, 'shoe', 1)",
           "INSERT INTO journal_lines VALUES(6, 3, 'shoe', 0)",
       }) {
    EXPECT_EQ(sql.TryRun(change) & 0xff, SQLITE_CONSTRAINT) << change;
  }
}

}  // namespace
}  // namespace stockade
