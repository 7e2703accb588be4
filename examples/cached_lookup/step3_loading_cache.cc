#include "steps.h"

namespace cached_lookup {

// One query an expiry, whoever asks: those who find the value expired wait for the one that queries.
std::vector<Row> Step3LoadingCache() {
  Setting setting;
  ProductCache products({.name = "products", .ttl = kTtl, .clock = &setting.clock},
                        [&](const int& id, stockade::LoadContext&) { return setting.db.Find(id); });
  return {Named("3", "LoadingCache", AskForOne(setting, LookupIn(products), 1))};
}

}  // namespace cached_lookup
