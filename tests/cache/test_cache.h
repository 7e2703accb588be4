#ifndef STOCKADE_TESTS_CACHE_TEST_CACHE_H_
#define STOCKADE_TESTS_CACHE_TEST_CACHE_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "stockade/base/manual_clock.h"
#include "stockade/cache/loading_cache.h"

namespace stockade::testing {

using IntCache = LoadingCache<int, int>;
using IntAnswer = absl::StatusOr<CacheHandle<int>>;
using IntBatch = BatchLoad<int, int>;
using Texts = std::vector<std::string>;

inline absl::Status Ok() { return absl::OkStatus(); }  // A write that does nothing.
inline absl::StatusOr<int> ItsKey(const int& key, LoadContext&) { return key; }
inline std::string CodeOf(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

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

// "7", or "NOT_FOUND".
inline std::string Text(const IntAnswer& answer) {
  return answer.ok() ? std::to_string(**answer) : absl::StatusCodeToString(answer.status().code());
}
inline Texts TextsOf(const std::vector<IntAnswer>& answers) {
  Texts texts;
  for (const IntAnswer& answer : answers) texts.push_back(Text(answer));
  return texts;
}

// A batch loader that finds ten times each key.
inline absl::Status AddTenfold(const std::vector<int>& keys, IntBatch& batch) {
  for (const int key : keys) batch.Add(key, 10 * key);
  return absl::OkStatus();
}

// A cache with a batch loader alone. Records what that was asked for.
struct BatchCache {
  explicit BatchCache(LoadingCacheOptions options, IntCache::BatchLoader load = AddTenfold)
      : cache(With(std::move(options), &registry),
              IntCache::Callbacks{.load_all = [this, load](const std::vector<int>& keys, IntBatch& batch) {
                {
                  std::lock_guard lock(mutex);
                  recorded.push_back(keys);
                }
                return load(keys, batch);
              }}) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, MetricsRegistry* registry) {
    options.metrics = registry;
    return options;
  }
  Texts GetAll(const std::vector<int>& keys, const CacheGetOptions& options = {}) {
    return TextsOf(cache.GetAll(keys, options));
  }
  std::vector<std::vector<int>> batches() {
    std::lock_guard lock(mutex);
    return recorded;
  }

  std::mutex mutex;
  std::vector<std::vector<int>> recorded;  // Guarded by mutex.
  MetricsRegistry registry;
  IntCache cache;
};

// The answers of asynchronous calls, in the order of their arrival.
class AsyncAnswers {
 public:
  IntCache::AsyncCallback Callback() {
    return [this](IntAnswer answer) {
      std::lock_guard lock(mutex_);
      texts_.push_back(Text(answer));
      changed_.notify_all();
    };
  }
  // The first `count`, once they are there.
  Texts Await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return texts_.size() >= count; });
    return texts_;
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return texts_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Texts texts_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_TEST_CACHE_H_
