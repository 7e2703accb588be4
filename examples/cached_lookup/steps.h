#ifndef STOCKADE_EXAMPLES_CACHED_LOOKUP_STEPS_H_
#define STOCKADE_EXAMPLES_CACHED_LOOKUP_STEPS_H_

#include <vector>

#include "load.h"
#include "stockade/cache/loading_cache.h"

// From a naive lookup to a protected one. Each step is a file, and adds one thing to the one before. From step 5 on
// there is a new hardship each time, and a line of the table for the cache without what the step adds.
namespace cached_lookup {

using ProductCache = stockade::LoadingCache<int, Product>;

std::vector<Row> Step1NoCache();
std::vector<Row> Step2TtlMap();
std::vector<Row> Step3LoadingCache();
std::vector<Row> Step4RefreshAhead();
std::vector<Row> Step5NegativeTtl();
std::vector<Row> Step6StaleIfError();
std::vector<Row> Step7GetAll();
std::vector<Row> Step8Invalidation();

// A lookup as most callers write it.
inline Lookup LookupIn(ProductCache& products) {
  return [&products](int id) -> absl::StatusOr<Product> {
    const absl::StatusOr<stockade::CacheHandle<Product>> product = products.Get(id);
    if (!product.ok()) return product.status();
    return **product;
  };
}

// What the cache is built with by then.
stockade::LoadingCacheOptions Step4Options(Setting& setting);
stockade::LoadingCacheOptions Step5Options(Setting& setting);
stockade::LoadingCacheOptions Step6Options(Setting& setting);

}  // namespace cached_lookup

#endif  // STOCKADE_EXAMPLES_CACHED_LOOKUP_STEPS_H_
