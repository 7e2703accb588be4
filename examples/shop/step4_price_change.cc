// Step 4: prices change, and nobody sees the old one afterwards.

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "database.h"
#include "stockade/cache/loading_cache.h"
#include "visitors.h"

using shop::Product;
using Products = stockade::LoadingCache<std::string, Product>;

namespace {

// 100 visitors look at two shoes of brand-1, whose price was changed to `price`.
void CountOldPrices(const char* what, Products& products, const shop::Database& db, int64_t price) {
  const int64_t queries = db.queries();
  std::atomic<int> old_prices = 0;
  shop::AtOnce(100, [&](int visitor) {
    const absl::StatusOr<stockade::CacheHandle<Product>> product = products.Get(absl::StrCat("shoe-1", visitor % 2));
    if (!product.ok() || (*product)->price != price) ++old_prices;
  });
  std::printf("%-40s %3d of 100 see the old price, %lld queries\n", what, old_prices.load(),
              static_cast<long long>(db.queries() - queries));
}

}  // namespace

int main() {
  shop::Database db;
  Products products({.name = "products", .ttl = absl::Minutes(1), .refresh_ahead = 0.7},
                    [&](const std::string& id, stockade::LoadContext& load) -> absl::StatusOr<Product> {
                      absl::StatusOr<Product> product = db.Find(id);
                      if (product.ok()) load.AddTag(product->brand);
                      return product;
                    });
  for (const char* id : {"shoe-10", "shoe-11"}) shop::OrExit(products.Get(id).status());  // Cached, at 100.

  for (const char* id : {"shoe-10", "shoe-11"}) shop::OrExit(db.SetPrice(id, 90));
  CountOldPrices("written to the database only:", products, db, 90);

  // One product: the write goes through the cache, which forgets what it has before it and again after it.
  for (const char* id : {"shoe-10", "shoe-11"}) {
    shop::OrExit(products.UpdateThrough(id, [&] { return db.SetPrice(id, 80); }));
  }
  CountOldPrices("written by UpdateThrough:", products, db, 80);

  // Many products: write, then all that has the tag is forgotten, of what is cached and of what is being loaded.
  for (const char* id : {"shoe-10", "shoe-11"}) shop::OrExit(db.SetPrice(id, 70));
  products.InvalidateTag("brand-1");
  CountOldPrices("written, then InvalidateTag:", products, db, 70);
}
