// What docs/INVENTORY.md and docs/FLEET_INVENTORY.md say of the ledger's file and of failures: its SQL runs and tells
// what the inventory tells, and the tests that it names are there.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "docs/document_table.h"
#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"
#include "stockade/inventory/inventory.h"

namespace stockade::testing {
namespace {

std::string Contents(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> SqlIn(const std::string& document) {
  const std::string text = Contents(std::string(STOCKADE_SOURCE_DIR) + "/" + document);
  const std::string begin = "```sql\n";
  std::vector<std::string> blocks;
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    blocks.push_back(text.substr(at, text.find("```", at) - at));
  }
  return blocks;
}

TEST(LedgerDocumentTest, Sql_OnALedger_TellsWhatTheInventoryTells) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  {
    Inventory shop({.ledger = SqliteLedger::Open(path, {.metrics = nullptr}).value(), .metrics = nullptr});
    ASSERT_TRUE(shop.AddSku("lace", {.stock = 10}).ok());
    ASSERT_TRUE(shop.AddSku("shoe", {.stock = 10}).ok());
    ASSERT_TRUE(shop.Take({.sku = "shoe", .quantity = 2, .request_id = "a"}).ok());
    ASSERT_TRUE(shop.ReserveBasket({.lines = {{"shoe", 1}, {"lace", 4}}, .request_id = "b"}).ok());
    ASSERT_TRUE(shop.Cancel(shop.Reserve({.sku = "lace", .request_id = "c"})->id()).ok());
  }
  const std::vector<std::string> blocks = SqlIn("docs/INVENTORY.md");
  ASSERT_EQ(blocks.size(), 1u);
  const std::vector<PlainSql::Row> expected = {{"lace", "10", "6"}, {"shoe", "10", "7"}};
  EXPECT_EQ(PlainSql(path).Query(blocks[0]), expected);
}

}  // namespace
}  // namespace stockade::testing
