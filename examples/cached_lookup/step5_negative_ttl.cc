#include "steps.h"

namespace cached_lookup {

// That a product does not exist is remembered too, else a wrong link goes through to the database each time.
stockade::LoadingCacheOptions Step5Options(Setting& setting) {
  return {.name = "products",
          .ttl = kTtl,
          .ttl_jitter = 0.1,
          .refresh_ahead = 0.7,
          .negative_ttl = kTtl,
          .clock = &setting.clock,
          .refresh_executor = &setting.background};
}

namespace {

Row AskForNobodys(stockade::LoadingCacheOptions (*options)(Setting&)) {
  Setting setting;
  ProductCache products(options(setting), [&](const int& id, stockade::LoadContext&) { return setting.db.Find(id); });
  return AskForOne(setting, LookupIn(products), kNobodys);
}

}  // namespace

std::vector<Row> Step5NegativeTtl() {
  return {Named("5", "an id that does not exist", AskForNobodys(Step4Options)),
          Named("", "+ negative_ttl", AskForNobodys(Step5Options))};
}

}  // namespace cached_lookup
