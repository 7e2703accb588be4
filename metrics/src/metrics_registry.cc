#include "stockade/metrics/metrics_registry.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <cmath>
#include <limits>
#include <string>

#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

using metrics_internal::MetricDef;
using metrics_internal::MetricSet;
using metrics_internal::MetricType;

prometheus::MetricType ExportedType(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return prometheus::MetricType::Counter;
    case MetricType::kGauge: return prometheus::MetricType::Gauge;
    case MetricType::kSecondsHistogram:
    case MetricType::kCountHistogram: return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

void ReadInto(const MetricSet& set, size_t metric, prometheus::ClientMetric& out) {
  switch (set.defs()[metric].type) {
    case MetricType::kCounter: out.counter.value = static_cast<double>(set.CounterValue(metric)); return;
    case MetricType::kGauge: out.gauge.value = set.GaugeValue(metric); return;
    case MetricType::kSecondsHistogram:
    case MetricType::kCountHistogram: {
      const MetricSet::HistogramValue value = set.ReadHistogram(metric);
      uint64_t cumulative = 0;
      for (size_t k = 0; k < value.bucket_counts.size(); ++k) {
        cumulative += value.bucket_counts[k];
        const bool last = k == value.upper_bounds.size();
        out.histogram.bucket.push_back(
            {.cumulative_count = cumulative,
             .upper_bound = last ? std::numeric_limits<double>::infinity() : value.upper_bounds[k]});
      }
      out.histogram.sample_count = value.count;
      out.histogram.sample_sum = value.sum;
      return;
    }
  }
}

prometheus::ClientMetric Read(const MetricSet& set, size_t metric) {
  prometheus::ClientMetric out;
  for (const auto& [name, value] : set.labels()) out.label.push_back({name, value});
  const MetricDef& def = set.defs()[metric];
  if (!def.label_name.empty()) out.label.push_back({std::string(def.label_name), std::string(def.label_value)});
  ReadInto(set, metric, out);
  return out;
}

}  // namespace

MetricsRegistry* MetricsRegistry::Default() {
  static MetricsRegistry* const registry = new MetricsRegistry;
  return registry;
}

std::shared_ptr<MetricSet> MetricsRegistry::SetFor(std::span<const MetricDef> defs,
                                                   metrics_internal::MetricLabels labels) {
  for (auto& [name, value] : labels) value = base_internal::Printable(value);
  bool warns = false;
  std::shared_ptr<MetricSet> found;
  {
    const base_internal::MutexLock lock(mutex_);
    if (!HasOwnSeries(defs.data(), labels)) {
      for (auto& [name, value] : labels) value = kOtherNames;
      warns = warned_.insert(defs.data()).second;
    }
    std::shared_ptr<MetricSet>& set = sets_[Key(defs.data(), labels)];
    if (set == nullptr) set = std::make_shared<MetricSet>(defs, labels);
    found = set;
  }
  if (warns) {
    base_internal::Log(LogSeverity::kWarning,
                       base_internal::Concat("MetricsRegistry: more than ", kMaxNames, " names of label ",
                                             labels.front().first, ": components with further names share ",
                                             labels.front().first, "=\"", kOtherNames, "\""));
  }
  return found;
}

bool MetricsRegistry::HasOwnSeries(const MetricDef* defs, const metrics_internal::MetricLabels& labels) {
  if (labels.empty()) return true;
  std::set<std::string>& names = names_[defs];
  if (names.size() < kMaxNames) names.insert(labels.front().second);
  return names.contains(labels.front().second);
}

std::vector<prometheus::MetricFamily> MetricsRegistry::Collect() const {
  std::vector<std::shared_ptr<MetricSet>> sets;
  {
    const base_internal::MutexLock lock(mutex_);
    for (const auto& [key, set] : sets_) sets.push_back(set);
  }
  // Gauge callbacks run without mutex_: a component may be made or destroyed meanwhile.
  std::map<std::string_view, prometheus::MetricFamily> families;
  for (const auto& set : sets) {
    for (size_t metric = 0; metric < set->defs().size(); ++metric) {
      const MetricDef& def = set->defs()[metric];
      prometheus::ClientMetric read = Read(*set, metric);
      if (def.type == MetricType::kGauge && std::isnan(read.gauge.value)) continue;
      auto [family, added] = families.try_emplace(def.name);
      if (added) {
        family->second.name = std::string(def.name);
        family->second.help = std::string(def.help);
        family->second.type = ExportedType(def.type);
      }
      family->second.metric.push_back(std::move(read));
    }
  }
  std::vector<prometheus::MetricFamily> sorted;
  sorted.reserve(families.size());
  for (auto& [name, family] : families) sorted.push_back(std::move(family));
  return sorted;
}

}  // namespace stockade
