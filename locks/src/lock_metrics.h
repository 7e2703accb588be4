#ifndef STOCKADE_LOCKS_SRC_LOCK_METRICS_H_
#define STOCKADE_LOCKS_SRC_LOCK_METRICS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "stockade/locks/lock_word.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::internal {

// One outermost hold in so many of a thread is timed. A prime, so that a thread which takes several locks in turn does
// not time the same one every time. The help of stockade_lock_hold_seconds states it.
inline constexpr uint32_t kHoldSampling = 61;

// What locks of one name count. Thread-safe; wait-free but for a thread's first call.
class LockMetrics {
 public:
  LockMetrics(MetricsRegistry* registry, std::string_view lock_name);

  void Acquired(LockMode mode);
  void AcquiredAfter(LockMode mode, std::chrono::steady_clock::duration wait);
  void ReadersCalledBack();
  void Held(std::chrono::steady_clock::duration span);
  void WaitBegins() { waiters_.fetch_add(1, std::memory_order_relaxed); }
  void WaitEnds() { waiters_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  // Relaxed: a figure to look at, nothing is ordered by it.
  std::atomic<int64_t> waiters_{0};
  ComponentMetrics metrics_;  // Last: its gauge reads waiters_.
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_LOCK_METRICS_H_
