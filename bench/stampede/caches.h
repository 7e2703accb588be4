#ifndef STOCKADE_BENCH_STAMPEDE_CACHES_H_
#define STOCKADE_BENCH_STAMPEDE_CACHES_H_

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

using Load = std::function<uint64_t()>;

class OurCache {
 public:
  explicit OurCache(Load load)
      : cache_({.name = "bench", .metrics = &registry_},
               [load = std::move(load)](const uint64_t&, LoadContext&) -> absl::StatusOr<uint64_t> { return load(); }) {
  }

  uint64_t Get(uint64_t key) { return *Require(cache_.Get(key), "Get"); }

 private:
  MetricsRegistry registry_;
  LoadingCache<uint64_t, uint64_t> cache_;
};

// One mutex around the cache and the load: loads once, and holds up every other key meanwhile.
class MutexCache {
 public:
  explicit MutexCache(Load load) : load_(std::move(load)) {}

  uint64_t Get(uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found != values_.end() ? found->second : values_.emplace(key, load_()).first->second;
  }

 private:
  const Load load_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> values_;
};

// Look up, miss, load, store: every caller that misses loads.
class UnprotectedCache {
 public:
  explicit UnprotectedCache(Load load) : load_(std::move(load)) {}

  uint64_t Get(uint64_t key) {
    if (const std::optional<uint64_t> value = Find(key)) return *value;
    const uint64_t value = load_();
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    return value;
  }

 private:
  std::optional<uint64_t> Find(uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  const Load load_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> values_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_STAMPEDE_CACHES_H_
