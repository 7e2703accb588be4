// The snippet of README.md, where it compiles and runs. snippets_test.cc compares the two.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "support/temp_dir.h"

namespace {

struct Product {
  std::string name;
};

struct Database {
  absl::StatusOr<Product> Fetch(const std::string& id, stockade::Instant /*deadline*/) {
    ++queries;
    return Product{"product " + id};
  }
  int queries = 0;
};

TEST(ReadmeTest, Snippet_RunInADirectory_SellsAndCaches) {
  const stockade::testing::TempDir directory;
  std::filesystem::current_path(directory.path());
  Database db;
  const std::string id = "request-1";
  const std::string user = "ada";

  stockade::LoadingCache<std::string, Product> products(
      {.name = "products", .ttl = absl::Minutes(5), .negative_ttl = absl::Seconds(10)},
      [&](const std::string& id, stockade::LoadContext& load) { return db.Fetch(id, load.deadline()); });
  absl::StatusOr<stockade::CacheHandle<Product>> page = products.Get("air-force-one");  // one query, however many ask

  stockade::Inventory shop({.ledger = stockade::SqliteLedger::Open("orders.db").value()});
  absl::Status added = shop.AddSku("air-force-one", {.stock = 2000, .shards = 8, .per_buyer_limit = 1});
  absl::StatusOr<stockade::Reservation> held =
      shop.Reserve({.sku = "air-force-one", .quantity = 1, .request_id = id, .buyer = user, .ttl = absl::Minutes(10)});
  absl::Status sold = shop.Commit(held->id());  // or Cancel; or it expires and the unit is for sale again

  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ((*page)->name, "product air-force-one");
  EXPECT_EQ(db.queries, 1);
  EXPECT_TRUE(added.ok()) << added;
  EXPECT_TRUE(sold.ok()) << sold;
  EXPECT_EQ(shop.Available("air-force-one").value(), 1999);
}

}  // namespace
