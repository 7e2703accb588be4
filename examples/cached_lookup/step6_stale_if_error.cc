#include "steps.h"

namespace cached_lookup {

// While the database is down, an expired value is better than none; it is asked once a back-off.
stockade::LoadingCacheOptions Step6Options(Setting& setting) {
  return {.name = "products",
          .ttl = kTtl,
          .ttl_jitter = 0.1,
          .refresh_ahead = 0.7,
          .negative_ttl = kTtl,
          .stale_if_error = absl::Hours(1),
          .retry_backoff = absl::Seconds(1),
          .clock = &setting.clock,
          .refresh_executor = &setting.background};
}

namespace {

Row AskInAnOutage(stockade::LoadingCacheOptions (*options)(Setting&)) {
  Setting setting;
  ProductCache products(options(setting), [&](const int& id, stockade::LoadContext&) { return setting.db.Find(id); });
  (void)products.Get(1);
  return AskForOne(setting, LookupIn(products), 1, 3 * kRoundsPerTtl, 6 * kRoundsPerTtl);
}

}  // namespace

std::vector<Row> Step6StaleIfError() {
  return {Named("6", "the database is down for 3 TTLs", AskInAnOutage(Step5Options)),
          Named("", "+ stale_if_error", AskInAnOutage(Step6Options))};
}

}  // namespace cached_lookup
