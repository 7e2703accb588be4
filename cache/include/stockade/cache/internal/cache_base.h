#ifndef STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/executor.h"
#include "stockade/base/fork_guard.h"
#include "stockade/cache/internal/cache_metrics.h"
#include "stockade/cache/internal/call_gate.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/loading_cache_options.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::internal {

absl::Status EmptyLoaderError(std::string_view name);
[[noreturn]] void FatalStatus(const absl::Status& status);

// What a cache has that depends on no key or value type.
class CacheBase {
 public:
  explicit CacheBase(LoadingCacheOptions options);
  ~CacheBase();

  CacheBase(const CacheBase&) = delete;
  CacheBase& operator=(const CacheBase&) = delete;

  bool InForkedChild() const { return fork_guard_.InForkedChild(); }
  int64_t size() const;
  int64_t weight() const;

 protected:
  void CheckFork() const { fork_guard_.Check("LoadingCache", options_.name); }
  Instant Now() const { return options_.clock->Now(); }
  void Count(CacheMetric metric) { metrics_.Add(metric); }
  void Observe(CacheMetric metric, absl::Duration span) { metrics_.Observe(metric, span); }
  void CountLoad(absl::StatusCode result);

  // An entry came or left.
  void AddEntries(int64_t count, int64_t weight);

  absl::Status CancelledError() const;
  absl::Status DeadlineError() const;
  absl::Status CircleError() const;

  // Starts the cache's own pool where the user gave no executor.
  Executor* RefreshExecutor();
  // Aborts if the calling thread runs a loader of this cache.
  void CheckNotInLoader() const;
  // Joins the cache's own pool.
  void StopRefreshes() { refresh_pool_.reset(); }

  const LoadingCacheOptions options_;
  const std::string loader_label_;  // For what they throw.
  const std::string weigher_label_;
  const std::shared_ptr<CallGate> gate_ = std::make_shared<CallGate>();
  Freshness freshness_;
  std::atomic<int64_t> flights_{0};
  std::atomic<int64_t> waiters_{0};

 private:
  ForkGuard fork_guard_;
  std::atomic<int64_t> entries_{0};
  std::atomic<int64_t> weight_{0};
  std::once_flag refresh_pool_started_;
  std::unique_ptr<ThreadPool> refresh_pool_;
  // Last: its gauges read the counts above, and nothing of a derived class.
  ComponentMetrics metrics_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_
