#ifndef STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/base/timer_queue.h"
#include "stockade/cache/internal/cache_metrics.h"
#include "stockade/cache/internal/call_gate.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/load_context.h"
#include "stockade/cache/loading_cache_options.h"
#include "stockade/cache/removal.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::cache_internal {

STOCKADE_EXPORT absl::Status EmptyLoaderError(std::string_view name);
[[noreturn]] STOCKADE_EXPORT void FatalStatus(const absl::Status& status);

// The part of a cache that does not depend on key and value types.
class STOCKADE_EXPORT CacheBase {
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
  // Counts kRequestHit if one load and one store are enough. Otherwise returns false and counts nothing.
  bool TryCountHit() { return cells_ == nullptr || cells_->TryAdd(ThisThreadSlotIfAny(), hit_cell_, 1); }
  void Observe(CacheMetric metric, absl::Duration span) { metrics_.Observe(metric, span); }
  // Counts the end of a loader's run. `late`: after its hard time-out.
  void CountLoad(const absl::Status& result, absl::Duration took, bool late);
  void CountRefresh(RefreshTrigger trigger);
  // Counts an entry that left the cache.
  void CountRemoval(RemovalCause cause);

  // Adds to the number and weight of the entries.
  void AddEntries(int64_t count, int64_t weight);

  absl::Status CancelledError() const;
  absl::Status StoppedError() const;
  absl::Status DeadlineError() const;
  absl::Status HardTimeoutError() const;
  absl::Status NoLoaderError() const;
  absl::Status NothingToKeepError() const;
  absl::Status BatchMissError() const;
  absl::Status UpdateRefusedError() const;
  absl::Status WarmUpRefusedError() const;
  [[noreturn]] void NoCallbackFatal() const;
  // `circle` lists the loads, each of which waits for the next one.
  absl::Status CircleError(std::string_view circle) const;

  // Called in a catch clause: reports an exception of user code as a status (kInternal), or logs it with its
  // consequence.
  absl::Status ThrownError() const;
  void LogThrown(std::string_view consequence) const;
  static void LogThrownBy(std::string_view what);
  // An executor has dropped a load or a refresh.
  absl::Status RefusedError(bool load) const;
  // Logs an exception of a loader that no call may receive.
  static void LogFailedRefresh(const absl::Status& thrown);

  // The user's executor, or the cache's own pool, which runs tasks within Schedule() if it cannot be started.
  Executor* RefreshExecutor();
  // Starts the pool if RefreshExecutor() is the cache's own. ResourceExhausted: the threads cannot be started.
  absl::Status StartRefreshThreads();
  // Logs that a refresh was skipped because of `why`; the next lookup tries again.
  void LogNoRefresh(const absl::Status& why) const;
  // Aborts if the calling thread runs a loader of this cache.
  void CheckNotInLoader() const;
  [[noreturn]] void DestroyedFromWithin(std::string_view callback) const;
  // Runs `reclaim` in 50 ms, on a thread that all caches of the process share.
  static absl::Status ScheduleReclaim(Executor::Task reclaim);
  // Joins the cache's own threads. Tasks in their queues find the gate closed.
  void StopThreads();

  const LoadingCacheOptions options_;
  const std::string loader_label_;  // For errors about their exceptions.
  const std::string weigher_label_;
  const std::string listener_label_;
  const std::string write_label_;
  const std::string keys_label_;
  const std::shared_ptr<CallGate> gate_ = std::make_shared<CallGate>();
  Freshness freshness_;
  std::atomic<int64_t> flights_{0};
  std::atomic<int64_t> waiters_{0};
  Asked previous_asked_;
  const absl::Duration sweep_interval_;
  std::atomic<bool> sweep_planned_{false};
  std::optional<TimerQueue> timers_;  // For calls without a thread, and sweeps. Empty: stopped.
  LazyThreadPool async_read_pool_;    // Strict reads without a thread wait here, never on a user's executor.

 private:
  ForkGuard fork_guard_;
  std::atomic<int64_t> entries_{0};
  std::atomic<int64_t> weight_{0};
  LazyThreadPool refresh_pool_;
  // Last: its gauges read the counts above, and no member of a derived class.
  ComponentMetrics metrics_;
  StripedCells* const cells_ = metrics_.enabled() ? &metrics_.set()->cells() : nullptr;
  const size_t hit_cell_ = metrics_.enabled() ? metrics_.set()->cell_of(kRequestHit) : 0;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_
