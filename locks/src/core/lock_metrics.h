#ifndef STOCKADE_LOCKS_SRC_CORE_LOCK_METRICS_H_
#define STOCKADE_LOCKS_SRC_CORE_LOCK_METRICS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "stockade/locks/internal/lock_word.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::locks_internal {

// The counts of the locks of one name. Thread-safe; wait-free except for the first call of a thread.
class LockMetrics {
 public:
  LockMetrics(MetricsRegistry* registry, std::string_view lock_name);

  // The cells of the counters of acquisitions, in the order of LockMode: for LockCore, which adds to them itself.
  StripedCells& acquisitions() { return metrics_.set()->cells(); }
  // Of an acquisition which has been counted as such.
  void Waited(LockMode mode, std::chrono::steady_clock::duration wait);
  void CalledBack();
  void Held(std::chrono::steady_clock::duration span);
  void WaitBegins() { waiters_.fetch_add(1, std::memory_order_relaxed); }
  void WaitEnds() { waiters_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  // Relaxed: a figure to look at, nothing is ordered by it.
  std::atomic<int64_t> waiters_{0};
  ComponentMetrics metrics_;  // Last: its gauge reads waiters_.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_CORE_LOCK_METRICS_H_
