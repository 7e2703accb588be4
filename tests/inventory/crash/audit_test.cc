// Ledgers in which something was lost, doubled or changed: the audit by SQL alone must say so, or it proves nothing.

#include "inventory/crash/audit.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>

#include "gtest/gtest.h"
#include "stockade/inventory/inventory.h"
#include "support/temp_dir.h"

namespace stockade::testing {
namespace {

// An order of each kind in each of its states, a limit that is used up, and a SKU that was removed while it was held.
void Trade(const std::string& path) {
  const auto shop = Inventory::Create({.ledger = OpenLedger(path), .metrics = nullptr}).value();
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 20, .per_buyer_limit = 6}).ok());
  ASSERT_TRUE(shop->AddSku("lace", {.stock = 20}).ok());
  ASSERT_TRUE(shop->AddSku("old", {.stock = 5}).ok());
  ASSERT_TRUE(shop->Restock("shoe", 5).ok());
  ASSERT_TRUE(shop->Restock({.sku = "lace", .quantity = 1, .request_id = "restocked"}).ok());
  ASSERT_TRUE(shop->Take({.sku = "shoe", .quantity = 2, .request_id = "take", .buyer = "ann"}).ok());
  const auto reserve = [&](const char* id, const char* sku) {
    return shop->Reserve({.sku = sku, .quantity = 2, .request_id = id, .buyer = "ann"}).value().id();
  };
  const auto basket = [&](const char* id) {
    return shop->ReserveBasket({.lines = {{"shoe", 1}, {"lace", 3}}, .request_id = id, .buyer = "bob"})->id();
  };
  ASSERT_TRUE(shop->Commit(reserve("sold", "shoe")).ok());
  ASSERT_TRUE(shop->Cancel(reserve("cancelled", "shoe")).ok());
  reserve("held", "shoe");
  const OrderId basket_sold = basket("basket sold");
  ASSERT_TRUE(shop->Commit(basket_sold).ok());
  ASSERT_TRUE(shop->Return({.order = basket_sold, .lines = {{"lace", 1}}, .request_id = "returned"}).ok());
  ASSERT_TRUE(
      shop->Return(
              {.order = basket_sold, .request_id = "written off", .disposition = ReturnRequest::Disposition::kWriteOff})
          .ok());
  ASSERT_TRUE(shop->Cancel(basket("basket cancelled")).ok());
  basket("basket held");
  const OrderId old = reserve("old", "old");
  ASSERT_TRUE(shop->RemoveSku("old").ok());
  ASSERT_TRUE(shop->Cancel(old).ok());
}

struct Change {
  const char* what;
  const char* sql;
  const char* found_by;  // One statement of the audit, perhaps of several.
};

// Of what Trade() makes.
constexpr Change kChanges[] = {
    {"one more than was granted is sold", "UPDATE orders SET quantity = 24 WHERE request_id = 'take'", "stock"},
    {"a removed SKU has units", "UPDATE skus SET granted = granted + 1 WHERE sku = 'old'", "stock"},
    {"units were taken before they were there",
     "UPDATE journal SET quantity = 1 WHERE kind = 'add_sku' AND sku = 'shoe';"
     "UPDATE journal SET quantity = 24 WHERE kind = 'restock' AND sku = 'shoe';"
     "UPDATE journal SET position = 1000 WHERE kind = 'restock' AND sku = 'shoe'",
     "history"},
    {"a restock counts twice", "UPDATE skus SET granted = granted + 5 WHERE sku = 'shoe'", "totals"},
    {"a record is lost", "DELETE FROM journal WHERE kind = 'restock'", "gaps"},
    {"the first record is lost", "DELETE FROM journal WHERE position = 1", "gaps"},
    {"a SKU is unknown", "DELETE FROM skus WHERE sku = 'old'", "skus"},
    {"a SKU is not removed", "UPDATE skus SET removed = 0 WHERE sku = 'old'", "skus"},
    {"sold after its removal", "UPDATE journal SET position = 1000 WHERE kind = 'reserve' AND sku = 'old'", "skus"},
    {"an order is lost", "DELETE FROM orders WHERE request_id = 'held'", "orders"},
    {"an order has no grant",
     "DELETE FROM journal WHERE kind = 'take' AND order_id = (SELECT order_id FROM orders WHERE request_id = 'take')",
     "orders"},
    {"an order was sold twice",
     "INSERT INTO journal SELECT (SELECT max(position) + 1 FROM journal), at_us, kind, order_id, sku, quantity "
     "FROM journal WHERE kind = 'commit' LIMIT 1",
     "orders"},
    {"a cancelled order is sold", "UPDATE orders SET state = 'sold' WHERE request_id = 'cancelled'", "orders"},
    {"a sold order is held", "UPDATE orders SET state = 'held', settled_at_us = NULL WHERE request_id = 'sold'",
     "orders"},
    {"an order's units differ", "UPDATE journal SET quantity = 1 WHERE kind = 'commit' AND sku = 'shoe'", "orders"},
    {"an order's SKU differs", "UPDATE orders SET sku = 'lace' WHERE request_id = 'held'", "orders"},
    {"a line is lost", "DELETE FROM order_lines WHERE sku = 'lace' AND quantity = 3", "lines"},
    {"a line of the journal is lost",
     "DELETE FROM journal_lines WHERE position = (SELECT max(position) FROM journal_lines)", "lines"},
    {"a line differs", "UPDATE order_lines SET quantity = 2 WHERE sku = 'lace'", "lines"},
    {"a buyer has too many", "UPDATE skus SET per_buyer_limit = 5 WHERE sku = 'shoe'", "buyers"},
    {"a request has two orders", "UPDATE orders SET request_id = 'take' WHERE request_id = 'held'", "requests"},
    {"a request is an order and a restock", "UPDATE restocks SET request_id = 'take'", "requests"},
    {"a restock is lost", "DELETE FROM restocks", "restocks"},
    {"a restock differs", "UPDATE restocks SET quantity = 2", "restocks"},
    {"a restock has no request id", "UPDATE journal SET order_id = NULL WHERE kind = 'restock'", "restocks"},
    {"a return is lost",
     "DELETE FROM change_lines WHERE position = (SELECT position FROM changes WHERE request_id = 'returned');"
     "DELETE FROM changes WHERE request_id = 'returned'",
     "returns"},
    {"a return is not in the journal", "UPDATE journal SET kind = 'extend' WHERE kind = 'return'", "returns"},
    {"a return differs", "UPDATE change_lines SET quantity = 2 WHERE sku = 'lace' AND to_stock = 1", "returns"},
    {"a return has another time", "UPDATE changes SET at_us = 1 WHERE request_id = 'returned'", "returns"},
    {"more came back than was sold", "UPDATE change_lines SET quantity = 3 WHERE sku = 'shoe'", "returns"},
    {"what came back is another SKU's", "UPDATE change_lines SET sku = 'old' WHERE sku = 'shoe'", "returns"},
    {"what was written off is for sale", "UPDATE change_lines SET to_stock = 1", "returns"},
    {"a held order came back",
     "UPDATE changes SET order_id = (SELECT order_id FROM orders WHERE request_id = 'basket held')", "returns"},
    {"an order is kept for no return", "UPDATE orders SET end_folded = 1 WHERE request_id = 'take'", "returns"},
    {"units that came back are sold", "UPDATE skus SET granted = granted + 1 WHERE sku = 'shoe'", "totals"},
    {"a request is an order and a return", "UPDATE changes SET request_id = 'take' WHERE request_id = 'returned'",
     "requests"},
    {"a row refers to nothing", "INSERT INTO journal_lines VALUES(5000, 1, 'shoe', 1)", "file"},
};

// Of what MakePrunedLedger() makes.
constexpr Change kChangesOfPruned[] = {
    {"more was sold of old", "UPDATE skus SET sold_forgotten = 4 WHERE sku = 'lace'", "start"},
    {"more was granted of old", "UPDATE skus SET start_granted = 16, granted = granted + 1 WHERE sku = 'lace'",
     "start"},
    {"fewer were available of old", "UPDATE skus SET start_available = 7 WHERE sku = 'lace'", "start"},
    {"what was held of old is lost", "DELETE FROM orders WHERE order_id = 1", "start"},
    {"a buyer of old is lost", "DELETE FROM bought WHERE buyer = 'buyer-10'", "buyers"},
    {"a buyer of old has more", "UPDATE bought SET units = 2 WHERE buyer = 'buyer-10'", "buyers"},
    {"a buyer without a limit", "INSERT INTO bought VALUES('lace', 'ann', 1)", "buyers"},
    {"a buyer of what was removed", "INSERT INTO bought VALUES('hat', 'ann', 1)", "buyers"},
    {"a limit is lost", "UPDATE skus SET per_buyer_limit = 0 WHERE sku = 'shoe'", "buyers"},
};

TEST(LedgerAuditTest, Audit_OfALedgerAsItWasWritten_FindsNothing) {
  const TempDir dir;
  Trade(dir.File("orders.db"));
  MakePrunedLedger(dir.File("pruned.db"));
  for (const char* file : {"orders.db", "pruned.db"}) {
    SCOPED_TRACE(file);
    PlainSql sql(dir.File(file));
    ExpectAuditHolds(sql);
  }
}

void ExpectAuditFinds(void (*make)(const std::string& path), std::span<const Change> changes) {
  const TempDir dir;
  make(dir.File("orders.db"));
  for (const Change& change : changes) {
    SCOPED_TRACE(change.what);
    const std::string changed = dir.File(change.what);
    std::filesystem::copy_file(dir.File("orders.db"), changed);
    PlainSql sql(changed);
    sql.Run("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON");
    sql.Run(change.sql);
    const std::vector<Finding> findings = AuditBySql(sql);
    EXPECT_NE(std::ranges::find(findings, change.found_by, &Finding::statement), findings.end());
  }
}

TEST(LedgerAuditTest, Audit_OfAChangedLedger_NamesWhatIsWrong) {
  ExpectAuditFinds(Trade, kChanges);
  ExpectAuditFinds(MakePrunedLedger, kChangesOfPruned);
}

}  // namespace
}  // namespace stockade::testing
