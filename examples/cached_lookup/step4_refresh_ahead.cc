#include "steps.h"

namespace cached_lookup {

// A value that is asked for is reloaded before it expires, in the background, so nobody waits; and values that were
// stored together do not expire together.
stockade::LoadingCacheOptions Step4Options(Setting& setting) {
  return {.name = "products",
          .ttl = kTtl,
          .ttl_jitter = 0.1,
          .refresh_ahead = 0.7,
          .clock = &setting.clock,
          .refresh_executor = &setting.background};
}

std::vector<Row> Step4RefreshAhead() {
  Setting setting;
  ProductCache products(Step4Options(setting),
                        [&](const int& id, stockade::LoadContext&) { return setting.db.Find(id); });
  (void)products.Get(1);  // All later queries are refreshes.
  return {Named("4", "+ refresh_ahead, ttl_jitter", AskForOne(setting, LookupIn(products), 1))};
}

}  // namespace cached_lookup
