#include <numeric>

#include "steps.h"
#include "stockade/base/clock.h"

namespace cached_lookup {
namespace {

constexpr int kOnThePage = 20;

// One query for all products of a page that are missing.
ProductCache::Callbacks BatchOf(Database& db) {
  return {.load_all = [&db](const std::vector<int>& ids, ProductCache::Callbacks::Batch& batch) -> absl::Status {
    const absl::StatusOr<std::vector<Product>> rows = db.FindAll(ids);
    if (!rows.ok()) return rows.status();
    for (const Product& row : *rows) batch.Add(row.id, row);
    return absl::OkStatus();  // Ids that have no row do not exist.
  }};
}

// A page of products, none of which is cached.
Row ShowPage(Setting& setting, ProductCache& products, bool at_once) {
  std::vector<int> page(kOnThePage);
  std::iota(page.begin(), page.end(), 0);
  Row row;
  stockade::Clock* const clock = stockade::Clock::System();
  const stockade::Instant begun = clock->Now();
  if (at_once) {
    for (const auto& product : products.GetAll(page)) row.errors += !product.ok();
  } else {
    for (const int id : page) row.errors += !products.Get(id).ok();
  }
  row.slowest = clock->Now() - begun;
  row.queries = setting.db.queries();
  return row;
}

}  // namespace

std::vector<Row> Step7GetAll() {
  Setting by_one;
  ProductCache one(Step6Options(by_one), BatchOf(by_one.db));
  Setting by_page;
  ProductCache page(Step6Options(by_page), BatchOf(by_page.db));
  return {Named("7", "a page of 20 cold products", ShowPage(by_one, one, false)),
          Named("", "+ GetAll, a batch loader", ShowPage(by_page, page, true))};
}

}  // namespace cached_lookup
