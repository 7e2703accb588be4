#ifndef STOCKADE_BENCH_STAMPEDE_CACHES_H_
#define STOCKADE_BENCH_STAMPEDE_CACHES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "harness/suite.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {

using SteadyClock = std::chrono::steady_clock;

// A value and for how long it is good.
struct Product {
  uint64_t price;
  std::chrono::milliseconds ttl;
};
using Load = std::function<Product()>;

class OurCache {
 public:
  explicit OurCache(Load load)
      : cache_({.name = "bench", .metrics = &registry_},
               [load = std::move(load)](const uint64_t&, LoadContext& context) -> absl::StatusOr<uint64_t> {
                 const Product product = load();
                 context.set_ttl(absl::FromChrono(product.ttl));
                 return product.price;
               }) {}

  uint64_t Get(uint64_t key) { return *Require(cache_.Get(key), "Get"); }

 private:
  MetricsRegistry registry_;
  LoadingCache<uint64_t, uint64_t> cache_;
};

// What the peers keep. Not thread-safe.
class ExpiringMap {
 public:
  std::optional<uint64_t> Find(uint64_t key) const {
    const auto found = values_.find(key);
    if (found == values_.end() || SteadyClock::now() >= found->second.second) return std::nullopt;
    return found->second.first;
  }
  uint64_t Store(uint64_t key, const Product& product) {
    values_[key] = {product.price, SteadyClock::now() + product.ttl};
    return product.price;
  }

 private:
  std::unordered_map<uint64_t, std::pair<uint64_t, SteadyClock::time_point>> values_;
};

// One mutex around the cache and the load: loads once, and holds up every other key meanwhile.
class MutexCache {
 public:
  explicit MutexCache(Load load) : load_(std::move(load)) {}

  uint64_t Get(uint64_t key) {
    const std::lock_guard lock(mutex_);
    if (const std::optional<uint64_t> value = values_.Find(key)) return *value;
    return values_.Store(key, load_());
  }

 private:
  const Load load_;
  std::mutex mutex_;
  ExpiringMap values_;
};

// Look up, miss, load, store: every caller that misses loads.
class UnprotectedCache {
 public:
  explicit UnprotectedCache(Load load) : load_(std::move(load)) {}

  uint64_t Get(uint64_t key) {
    if (const std::optional<uint64_t> value = Find(key)) return *value;
    const Product product = load_();
    const std::lock_guard lock(mutex_);
    return values_.Store(key, product);
  }

 private:
  std::optional<uint64_t> Find(uint64_t key) {
    const std::lock_guard lock(mutex_);
    return values_.Find(key);
  }

  const Load load_;
  std::mutex mutex_;
  ExpiringMap values_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_STAMPEDE_CACHES_H_
