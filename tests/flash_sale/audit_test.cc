#include "audit.h"

#include <gtest/gtest.h>

#include "shop.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "support/temp_dir.h"

namespace flash_sale {
namespace {

TEST(AuditTest, ExplainOversold_TellsTheWorstMomentFromTheEnd) {
  EXPECT_EQ(ExplainOversold({.stock = 2000, .sold = 2013, .available = -13, .oversold = 16}),
            "oversold: at the worst moment 16 units more than the stock of 2000 were held or sold; at the end 13 are "
            "(available=-13): cancelled and expired units have come back");
  EXPECT_EQ(ExplainOversold({.stock = 10, .sold = 12, .available = -2, .oversold = 2}),
            "oversold: at the worst moment 2 units more than the stock of 10 were held or sold; at the end 2 are "
            "(available=-2)");
  EXPECT_EQ(ExplainOversold({.stock = 2000, .sold = 2000}), "");
}

TEST(AuditTest, UnitsThatCameBack_AreNotSold) {
  const stockade::testing::TempDir dir;
  const std::string path = dir.File("orders.db");
  {
    const auto shop =
        stockade::Inventory::Create({.ledger = stockade::SqliteLedger::Open(path).value(), .metrics = nullptr}).value();
    ASSERT_TRUE(shop->AddSku(kSaleSku, {.stock = 5}).ok());
    const stockade::OrderId order = shop->Take({.sku = kSaleSku, .quantity = 4, .request_id = "sold"})->id();
    ASSERT_TRUE(shop->Return({.order = order, .lines = {{kSaleSku, 3}}, .request_id = "back"}).ok());
    ASSERT_TRUE(shop->Take({.sku = kSaleSku, .quantity = 4, .request_id = "sold again"}).ok());
  }
  const StockAudit audit = AuditOrders(path).value();
  EXPECT_EQ(AuditLine(audit, std::nullopt),
            "audit: stock=5 sold=5 held=0 available=0 oversold=0 duplicates=0 loads_per_expiry=-");
  EXPECT_TRUE(audit.Holds());
}

}  // namespace
}  // namespace flash_sale
