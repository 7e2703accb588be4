#ifndef STOCKADE_TESTS_CACHE_TEST_CACHE_H_
#define STOCKADE_TESTS_CACHE_TEST_CACHE_H_

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "stockade/base/manual_clock.h"
#include "stockade/cache/loading_cache.h"

namespace stockade::testing {

using IntCache = LoadingCache<int, int>;
using IntAnswer = absl::StatusOr<CacheHandle<int>>;

// Shut until opened; then open for good. Counts who has come to it.
class Door {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Until `count` threads have come.
  void AwaitArrivals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int arrived_ = 0;
};

template <typename Predicate>
void SpinUntil(Predicate predicate) {
  while (!predicate()) std::this_thread::yield();
}

// The value of a counter or gauge of the only cache in `registry`; of the series with the label's value, where given.
// -1: there is none.
inline double Metric(const MetricsRegistry& registry, std::string_view name, std::string_view label_value = {}) {
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      bool matches = label_value.empty();
      for (const auto& label : metric.label) matches = matches || label.value == label_value;
      if (!matches) continue;
      switch (family.type) {
        case prometheus::MetricType::Counter: return metric.counter.value;
        case prometheus::MetricType::Histogram: return static_cast<double>(metric.histogram.sample_count);
        default: return metric.gauge.value;
      }
    }
  }
  return -1;
}

inline double Requests(const MetricsRegistry& registry, std::string_view result) {
  return Metric(registry, "stockade_cache_requests_total", result);
}

// Until `count` calls are parked on flights that other threads run.
inline void AwaitWaiters(const MetricsRegistry& registry, int count) {
  SpinUntil([&] { return Metric(registry, "stockade_cache_waiters") == count; });
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_TEST_CACHE_H_
