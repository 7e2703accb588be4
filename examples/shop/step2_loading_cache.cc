// Step 2: the map is a LoadingCache, and an expiry is one query.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "database.h"
#include "stockade/base/manual_clock.h"
#include "stockade/cache/loading_cache.h"
#include "visitors.h"

using shop::Product;
using Products = stockade::LoadingCache<std::string, Product>;

namespace {

// 20 products on one page.
shop::Visits ShowPage(Products& products) {
  shop::Visits visits;
  const absl::Time begun = absl::Now();
  for (int i = 20; i < 40; ++i) visits.errors += !products.Get(absl::StrCat("shoe-", i)).ok();
  visits.slowest = absl::Now() - begun;
  return visits;
}

}  // namespace

int main() {
  shop::Database db;
  stockade::ManualClock clock;
  shop::Report report(&db);

  Products products({.name = "products", .ttl = absl::Minutes(1), .clock = &clock},
                    [&](const std::string& id, stockade::LoadContext&) { return db.Find(id); });
  const shop::Lookup lookup = [&](const std::string& id) -> absl::StatusOr<Product> {
    absl::StatusOr<stockade::CacheHandle<Product>> product = products.Get(id);
    if (!product.ok()) return product.status();
    return **product;
  };

  report.Line("100 visitors at once", shop::VisitAtOnce(100, lookup, "shoe-1"));
  clock.Advance(absl::Seconds(45));
  report.Line("100 more, 45 s later", shop::VisitAtOnce(100, lookup, "shoe-1"));
  clock.Advance(absl::Seconds(45));
  report.Line("100 more, another 45 s later", shop::VisitAtOnce(100, lookup, "shoe-1"));

  report.Line("a shoe that does not exist, 10 visitors", shop::VisitOneByOne(10, lookup, "shoe-1000"));
  report.Line("20 shoes on one page, 1 visitor", ShowPage(products));
  clock.Advance(absl::Seconds(61));
  db.set_down(true);
  report.Line("the database is down, 10 visitors", shop::VisitOneByOne(10, lookup, "shoe-1"));
}
