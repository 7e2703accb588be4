#ifndef STOCKADE_METRICS_METRIC_SET_H_
#define STOCKADE_METRICS_METRIC_SET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/metrics/striped_cells.h"

namespace stockade {

class MetricsRegistry;

namespace metrics_internal {

enum class MetricType {
  kCounter,
  kGauge,             // Callbacks read its value at scrape time.
  kSecondsHistogram,  // Time spans: bounds 125 ns * 2^k, k = 0..27 (to 16.8 s).
  kCountHistogram,    // Sizes: bounds 2^k, k = 0..16.
};

// One exported series of a component. Tables of these are constants with static storage, because a set keeps pointers
// to them.
struct MetricDef {
  MetricType type;
  std::string_view name;  // As exported, with the base unit and _total.
  std::string_view help;
  std::string_view label_name = {};  // One fixed label, such as result="hit"; empty if there is none.
  std::string_view label_value = {};
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// The metrics of one named component, in the order of its table: one cell per counter and a range of cells per
// histogram. Components with the same table and labels share one set. Their series are therefore summed, and counts
// outlive a component.
class STOCKADE_EXPORT MetricSet {
 public:
  MetricSet(std::span<const MetricDef> defs, MetricLabels labels);

  MetricSet(const MetricSet&) = delete;
  MetricSet& operator=(const MetricSet&) = delete;

  // Returns the new value of the calling thread's cell.
  uint64_t Add(size_t metric, uint64_t n) { return cells_.Add(first_cell_[metric], n); }
  // `value` is in nanoseconds or is a size. A negative value counts as zero.
  void Observe(size_t metric, int64_t value);

  // The cells, and a metric's index in them. For components that add to a counter on a path where every load matters.
  StripedCells& cells() { return cells_; }
  size_t cell_of(size_t metric) const { return first_cell_[metric]; }
  const size_t* first_cells() const { return first_cell_.data(); }

  uint64_t CounterValue(size_t metric) const { return cells_.Sum(first_cell_[metric]); }

  struct HistogramValue {
    std::vector<double> upper_bounds;     // In seconds or as sizes, ascending, without +Inf.
    std::vector<uint64_t> bucket_counts;  // Not cumulative; one more than bounds, the last is +Inf.
    uint64_t count = 0;                   // Always the sum of bucket_counts.
    double sum = 0;
  };
  HistogramValue ReadHistogram(size_t metric) const;

  // The sum of the registered callbacks' results that are no NaN; NaN if all are. The callbacks run with this set's
  // mutex held.
  double GaugeValue(size_t metric) const;

  using GaugeReader = std::function<double()>;
  struct Gauge {
    size_t metric;
    GaugeReader read;
  };
  using GaugeId = std::list<Gauge>::iterator;
  GaugeId AddGauge(size_t metric, GaugeReader read);
  // After this returns, the callback does not run any more. Waits for a scrape that is running it.
  void RemoveGauge(GaugeId id);

  std::span<const MetricDef> defs() const { return defs_; }
  const MetricLabels& labels() const { return labels_; }

 private:
  const std::span<const MetricDef> defs_;
  const MetricLabels labels_;
  const std::vector<size_t> first_cell_;  // A histogram has its buckets, then its sum.
  StripedCells cells_;
  mutable Mutex gauges_mutex_;
  std::list<Gauge> gauges_ STOCKADE_GUARDED_BY(gauges_mutex_);
};

// A component's handle for its set. If the component's metrics are disabled there is no set, and every call is one
// branch. The destructor removes the component's gauges; its counts remain. A component declares it as its last member,
// so that gauge callbacks never use a destroyed member. It must not be destroyed with a lock held that the gauge
// callbacks acquire.
//
// Add() and the Observe functions are thread-safe, and wait-free after a thread's first call. Only the component's
// constructor calls the others.
class STOCKADE_EXPORT ComponentMetrics {
 public:
  ComponentMetrics() = default;  // Disabled.
  // Disabled if `registry` is null.
  ComponentMetrics(MetricsRegistry* registry, std::span<const MetricDef> defs, MetricLabels labels);
  ~ComponentMetrics();

  ComponentMetrics(const ComponentMetrics&) = delete;
  ComponentMetrics& operator=(const ComponentMetrics&) = delete;

  bool enabled() const { return set_ != nullptr; }

  // Returns the new value of the calling thread's cell, which callers can use for sampling; 0 if disabled.
  uint64_t Add(size_t metric, uint64_t n = 1) { return cells_ != nullptr ? cells_->Add(first_cells_[metric], n) : 0; }
  void Observe(size_t metric, absl::Duration span) {
    if (set_ != nullptr) set_->Observe(metric, absl::ToInt64Nanoseconds(span));
  }
  // Records the span between two clock readings without creating a Duration.
  void ObserveSpan(size_t metric, Instant from, Instant to) {
    if (set_ == nullptr) return;
    int64_t span = 0;
    if (__builtin_sub_overflow(to.nanoseconds(), from.nanoseconds(), &span)) span = to > from ? INT64_MAX : 0;
    set_->Observe(metric, span);
  }
  void ObserveCount(size_t metric, int64_t count) {
    if (set_ != nullptr) set_->Observe(metric, count);
  }
  // `read` must be callable from any thread until this object is destroyed, and must not throw. It returns NaN while
  // there is no value: then the series is not exported.
  void AddGauge(size_t metric, MetricSet::GaugeReader read);

  // Null if disabled.
  const MetricSet* set() const { return set_.get(); }
  MetricSet* set() { return set_.get(); }

 private:
  std::shared_ptr<MetricSet> set_;
  // Copies of the set's pointers, which save Add() two dependent loads. Null if disabled.
  StripedCells* const cells_ = nullptr;
  const size_t* const first_cells_ = nullptr;
  std::vector<MetricSet::GaugeId> gauges_;
};

}  // namespace metrics_internal
}  // namespace stockade

#endif  // STOCKADE_METRICS_METRIC_SET_H_
