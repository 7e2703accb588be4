// The snippets of docs/CACHE.md and docs/CACHE_MIGRATION.md, where they compile and run. snippets_test.cc compares the
// two.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/hash/hash.h"
#include "quickstart/cache_map.h"
#include "stockade/cache/loading_cache.h"

namespace {

struct Product {
  std::string id;
  std::string brand;
  int price = 0;
  int version = 0;
  bool on_sale = false;
};

struct Session {
  std::string user;
};

struct Database {
  absl::StatusOr<int> CountOf(const std::string&) { return 7; }
  absl::StatusOr<Session> FetchSession(const std::string& id) { return Session{"user of " + id}; }
  int VersionOf(const std::string& id) { return rows.at(id).version; }
  absl::StatusOr<Product> Fetch(const std::string& id, stockade::Instant /*deadline*/) {
    const auto found = rows.find(id);
    if (found == rows.end()) return absl::NotFoundError(id);
    return found->second;
  }
  std::vector<Product> FetchAll(const std::vector<std::string>& ids) {
    ++batches;
    std::vector<Product> products;
    for (const std::string& id : ids) {
      if (const auto found = rows.find(id); found != rows.end()) products.push_back(found->second);
    }
    return products;
  }
  absl::Status SetPrice(const std::string& id, int price) {
    rows.at(id).price = price;
    ++rows.at(id).version;
    return absl::OkStatus();
  }
  std::map<std::string, Product> rows = {{"air-force-one", {"air-force-one", "nike", 120}},
                                         {"dunk-low", {"dunk-low", "nike", 110}}};
  int batches = 0;
};

TEST(CacheDocumentTest, Snippet_Run_LoadsABatchAndSeesTheChange) {
  Database db;

  using Products = stockade::LoadingCache<std::string, Product>;
  using Batch = Products::Callbacks::Batch;
  Products products({.name = "products", .ttl = absl::Minutes(5), .stale_if_error = absl::Hours(1)},
                    {.load = [&](const std::string& id, auto& load) -> absl::StatusOr<Product> {
                       if (load.previous() != nullptr && db.VersionOf(id) == load.previous()->version) {
                         return load.NotModified();
                       }
                       absl::StatusOr<Product> product = db.Fetch(id, load.deadline());
                       if (!product.ok()) return product.status();  // NotFound is an answer as well
                       load.AddTag("brand:" + product->brand);
                       if (product->on_sale) load.set_ttl(absl::Seconds(5));
                       return product;
                     },
                     .load_all =
                         [&](const std::vector<std::string>& ids, Batch& batch) {
                           for (const Product& product : db.FetchAll(ids)) {
                             batch.Add(product.id, product, {.tags = {"brand:" + product.brand}});
                           }
                           return absl::OkStatus();  // keys that were not added do not exist
                         }});

  std::vector<absl::StatusOr<stockade::CacheHandle<Product>>> page = products.GetAll({"air-force-one", "dunk-low"});
  absl::Status changed = products.UpdateThrough("dunk-low", [&] { return db.SetPrice("dunk-low", 99); });

  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ((*page[1])->price, 110);
  EXPECT_EQ(db.batches, 1);
  EXPECT_TRUE(changed.ok()) << changed;
  EXPECT_FALSE(products.GetIfPresent("dunk-low").has_value());
  EXPECT_EQ((*products.Get("dunk-low"))->price, 99);
  EXPECT_EQ(products.size(), 2);

  products.InvalidateTag("brand:nike");

  EXPECT_EQ(products.size(), 0);
}

TEST(CacheMigrationDocumentTest, Snippets_Run_FindWhatTheyStored) {
  Database db;
  int left = 0;

  quickstart::CacheMap<std::string, int> stock({.name = "stock", .max_weight = 10'000, .ttl = absl::Minutes(1)});
  stock.insert_or_assign("dunk-low", 3);
  if (auto found = stock.find("dunk-low")) left = *found;
  stock.erase("dunk-low");

  stockade::LoadingCache<std::string, int> counts({.name = "counts", .ttl = absl::Minutes(1)},
                                                  [&](const std::string& id) { return db.CountOf(id); });
  absl::StatusOr<int> count = counts.GetCopy("dunk-low");  // In place of: look up, compute, store.

  EXPECT_EQ(left, 3);
  EXPECT_EQ(*count, 7);
}

TEST(CacheMapTest, EachCall_IsThatOfAMap) {
  quickstart::CacheMap<int, std::string> map({.max_weight = 3, .metrics = nullptr});
  EXPECT_TRUE(map.empty());
  EXPECT_FALSE(map.find(1));
  EXPECT_THROW((void)map.at(1), std::out_of_range);
  map.insert_or_assign(1, "one");
  map.insert_or_assign(1, "uno");
  EXPECT_EQ(map.at(1), "uno");
  const auto found = map.find(1);
  map.erase(1);
  map.erase(2);
  EXPECT_EQ(*found, "uno") << "a handle keeps the value";
  EXPECT_FALSE(map.contains(1));
  for (int key = 0; key < 10; ++key) map.insert_or_assign(key, "n");
  EXPECT_EQ(map.size(), 3u) << "its bound";
  map.clear();
  EXPECT_TRUE(map.empty());
}

TEST(CacheDocumentTest, Snippet_KeysFromOutside_AreFoundByAbslHash) {
  Database db;

  using Sessions = stockade::LoadingCache<std::string, Session, absl::Hash<std::string>>;
  Sessions sessions({.name = "sessions", .ttl = absl::Minutes(5)},
                    [&](const std::string& id) { return db.FetchSession(id); });

  EXPECT_EQ((*sessions.Get("7"))->user, "user of 7");
  EXPECT_TRUE(sessions.GetIfPresent("7").has_value());
}

}  // namespace
