// Step 3: nobody waits at an expiry, and what else the options are for.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "database.h"
#include "stockade/base/executor.h"
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
  std::vector<std::string> page;
  for (int i = 20; i < 40; ++i) page.push_back(absl::StrCat("shoe-", i));
  for (const auto& product : products.GetAll(page)) visits.errors += !product.ok();
  visits.slowest = absl::Now() - begun;
  return visits;
}

}  // namespace

int main() {
  shop::Database db;
  stockade::ManualClock clock;
  stockade::ThreadPool background(1);  // Left out in a service: the cache starts one of its own.
  shop::Report report(&db);

  Products products({.name = "products",
                     .ttl = absl::Minutes(1),
                     .ttl_jitter = 0.1,
                     .refresh_ahead = 0.7,
                     .negative_ttl = absl::Seconds(10),
                     .stale_if_error = absl::Hours(1),
                     .clock = &clock,
                     .refresh_executor = &background},
                    {.load = [&](const std::string& id, auto&) { return db.Find(id); },
                     .load_all = [&](const std::vector<std::string>& ids, auto& batch) -> absl::Status {
                       const absl::StatusOr<std::vector<Product>> rows = db.FindAll(ids);
                       if (!rows.ok()) return rows.status();
                       for (const Product& row : *rows) batch.Add(row.id, row);
                       return absl::OkStatus();  // Ids that were not added do not exist.
                     }});
  const shop::Lookup lookup = [&](const std::string& id) -> absl::StatusOr<Product> {
    absl::StatusOr<stockade::CacheHandle<Product>> product = products.Get(id);
    if (!product.ok()) return product.status();
    return **product;
  };

  report.Line("100 visitors at once", shop::VisitAtOnce(100, lookup, "shoe-1"));
  for (const char* what : {"100 more, 45 s later", "100 more, another 45 s later"}) {
    clock.Advance(absl::Seconds(45));
    const shop::Visits visits = shop::VisitAtOnce(100, lookup, "shoe-1");
    shop::Await(background);
    report.Line(what, visits);
  }

  report.Line("a shoe that does not exist, 10 visitors", shop::VisitOneByOne(10, lookup, "shoe-1000"));
  report.Line("20 shoes on one page, 1 visitor", ShowPage(products));
  clock.Advance(absl::Seconds(61));
  db.set_down(true);
  report.Line("the database is down, 10 visitors", shop::VisitOneByOne(10, lookup, "shoe-1"));
}
