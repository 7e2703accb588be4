#include "stockade/metrics/metric_set.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::metrics_internal {
namespace {

// Bucket k of a histogram holds the values in (first * 2^(k-1), first * 2^k]; the one past the last bound, the rest.
struct Scale {
  int64_t first;  // The lowest bound, in what is observed: nanoseconds or a size.
  size_t bounds;
  double unit;  // What one of what is observed is, in what is exported.
};

constexpr Scale kSeconds{.first = 125, .bounds = 28, .unit = 1e-9};
constexpr Scale kCounts{.first = 1, .bounds = 17, .unit = 1};

const Scale& ScaleOf(MetricType type) { return type == MetricType::kSecondsHistogram ? kSeconds : kCounts; }

// A constant scale, since a division by a constant is a multiplication.
template <const Scale& kScale>
size_t BucketOf(int64_t value) {
  if (value <= kScale.first) return 0;
  // The least k with first * 2^k >= value.
  const uint64_t multiple = (static_cast<uint64_t>(value) - 1) / static_cast<uint64_t>(kScale.first);
  return std::min<size_t>(std::bit_width(multiple), kScale.bounds);
}

size_t CellsOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return 1;
    case MetricType::kGauge: return 0;
    case MetricType::kSecondsHistogram:
    case MetricType::kCountHistogram: return ScaleOf(type).bounds + 2;  // +Inf and the sum.
  }
  return 0;
}

std::vector<size_t> FirstCells(std::span<const MetricDef> defs) {
  std::vector<size_t> first{0};
  for (const MetricDef& def : defs) first.push_back(first.back() + CellsOf(def.type));
  return first;
}

}  // namespace

MetricSet::MetricSet(std::span<const MetricDef> defs, MetricLabels labels)
    : defs_(defs), labels_(std::move(labels)), first_cell_(FirstCells(defs)), cells_(first_cell_.back()) {}

void MetricSet::Observe(size_t metric, int64_t value) {
  value = std::max<int64_t>(value, 0);
  const size_t first = first_cell_[metric];
  const auto add = [&](size_t bucket, const Scale& scale) {
    cells_.Add(first + bucket, 1);
    cells_.Add(first + scale.bounds + 1, static_cast<uint64_t>(value));
  };
  if (defs_[metric].type == MetricType::kSecondsHistogram) return add(BucketOf<kSeconds>(value), kSeconds);
  add(BucketOf<kCounts>(value), kCounts);
}

MetricSet::HistogramValue MetricSet::ReadHistogram(size_t metric) const {
  const Scale& scale = ScaleOf(defs_[metric].type);
  const size_t first = first_cell_[metric];
  HistogramValue value;
  for (size_t k = 0; k < scale.bounds; ++k) {
    value.upper_bounds.push_back(std::ldexp(static_cast<double>(scale.first), static_cast<int>(k)) * scale.unit);
  }
  for (size_t k = 0; k <= scale.bounds; ++k) {
    value.bucket_counts.push_back(cells_.Sum(first + k));
    value.count += value.bucket_counts.back();
  }
  value.sum = static_cast<double>(cells_.Sum(first + scale.bounds + 1)) * scale.unit;
  return value;
}

double MetricSet::GaugeValue(size_t metric) const {
  const MutexLock lock(gauges_mutex_);
  double sum = 0;
  bool has_value = false;
  bool lacks_value = false;
  for (const Gauge& gauge : gauges_) {
    if (gauge.metric != metric) continue;
    const double value = gauge.read();
    (std::isnan(value) ? lacks_value : has_value) = true;
    if (!std::isnan(value)) sum += value;
  }
  return has_value || !lacks_value ? sum : std::numeric_limits<double>::quiet_NaN();
}

MetricSet::GaugeId MetricSet::AddGauge(size_t metric, GaugeReader read) {
  if (!read) base_internal::Fatal(base_internal::Concat("metric ", defs_[metric].name, ": a gauge without a callback"));
  const MutexLock lock(gauges_mutex_);
  return gauges_.insert(gauges_.end(), Gauge{metric, std::move(read)});
}

void MetricSet::RemoveGauge(GaugeId id) {
  std::list<Gauge> removed;  // Destroyed without the mutex.
  const MutexLock lock(gauges_mutex_);
  removed.splice(removed.end(), gauges_, id);
}

ComponentMetrics::ComponentMetrics(MetricsRegistry* registry, std::span<const MetricDef> defs, MetricLabels labels)
    : set_(registry == nullptr ? nullptr : registry->SetFor(defs, std::move(labels))),
      cells_(set_ == nullptr ? nullptr : &set_->cells()),
      first_cells_(set_ == nullptr ? nullptr : set_->first_cells()) {}

ComponentMetrics::~ComponentMetrics() {
  for (const MetricSet::GaugeId id : gauges_) set_->RemoveGauge(id);
}

void ComponentMetrics::AddGauge(size_t metric, MetricSet::GaugeReader read) {
  if (set_ == nullptr) return;
  gauges_.emplace_back();  // First: without memory no gauge may stay behind in the set.
  try {
    gauges_.back() = set_->AddGauge(metric, std::move(read));
  } catch (...) {
    gauges_.pop_back();
    throw;
  }
}

}  // namespace stockade::metrics_internal
