// The snippet of README.md, where it compiles and runs. snippets_test.cc compares the two.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"

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

std::vector<std::string> shown;
void Show(const Product& product) { shown.push_back(product.name); }

absl::Status Sell(Database& db, const std::string& id, const std::string& user) {
  stockade::LoadingCache<std::string, Product> products(
      {.name = "products", .ttl = absl::Minutes(5), .negative_ttl = absl::Seconds(10)},
      [&](const std::string& id, stockade::LoadContext& load) { return db.Fetch(id, load.deadline()); });
  if (auto page = products.Get("air-force-one"); page.ok()) Show(**page);  // one query, however many ask

  stockade::Inventory shop({.name = "shop"});  // in memory; orders in a SqliteLedger survive kill -9
  if (absl::Status added = shop.AddSku("air-force-one", {.stock = 2000, .shards = 8}); !added.ok()) return added;
  auto held = shop.Reserve({.sku = "air-force-one", .request_id = id, .buyer = user, .ttl = absl::Minutes(10)});
  if (!held.ok()) return held.status();  // sold out, all held for others, ...: stockade::RefusalOf() says which
  return shop.Commit(held->id());        // or Cancel; or it expires and the unit is for sale again
}

TEST(ReadmeTest, Snippet_Run_SellsAndCaches) {
  Database db;
  EXPECT_EQ(Sell(db, "request-1", "ada"), absl::OkStatus());
  EXPECT_EQ(shown, std::vector<std::string>{"product air-force-one"});
  EXPECT_EQ(db.queries, 1);
}

// A snippet is copied: what is refused must not abort it.
TEST(ReadmeTest, Snippet_Refused_SaysSo) {
  Database db;
  EXPECT_EQ(stockade::RefusalOf(Sell(db, "", "ada")), stockade::Refusal::kInvalid);
}

}  // namespace
