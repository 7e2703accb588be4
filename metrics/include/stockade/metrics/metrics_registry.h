#ifndef STOCKADE_METRICS_METRICS_REGISTRY_H_
#define STOCKADE_METRICS_METRICS_REGISTRY_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stockade/base/export.h"
#include "stockade/base/mutex.h"
#include "stockade/metrics/metric_set.h"

namespace stockade {

// Collects the metrics of components and sums them at scrape time. Components take a registry through their options: by
// default the process-wide one, and nullptr disables metrics. Register it with a prometheus::Exposer of your own, or
// start a MetricsServer.
//
// Components of one kind and name share one series. The counts of a destroyed component remain in the sums, so that
// rates never jump; its gauges are removed. A registry may be destroyed before or after its components.
//
// Memory is bounded: for each kind of component, a registry has series for the first kMaxNames names and keeps them for
// good. Components with further names share one series, in which every label from the constructor is kOtherNames; a
// warning is logged once per kind. Names that are generated per customer or per request therefore cost a bounded amount
// of memory and scrape time.
//
// Thread-safe. Collect() holds no lock that counting needs.
class STOCKADE_EXPORT MetricsRegistry final : public prometheus::Collectable {
 public:
  MetricsRegistry() = default;
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // The process-wide registry. Never destroyed.
  static MetricsRegistry* Default();

  // The number of names per kind of component that have their own series, and the name that all further ones share.
  static constexpr size_t kMaxNames = 1'000;
  static constexpr std::string_view kOtherNames = "_other";

  // All families, sorted by name. O(series * threads).
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  friend class metrics_internal::ComponentMetrics;

  using Key = std::pair<const metrics_internal::MetricDef*, metrics_internal::MetricLabels>;

  // Escapes label values that are not printable UTF-8, because Prometheus would reject the whole scrape.
  std::shared_ptr<metrics_internal::MetricSet> SetFor(std::span<const metrics_internal::MetricDef> defs,
                                                      metrics_internal::MetricLabels labels);

  // Whether the component that the first of `labels` names has its own series.
  bool HasOwnSeries(const metrics_internal::MetricDef* defs, const metrics_internal::MetricLabels& labels)
      STOCKADE_REQUIRES(mutex_);

  mutable base_internal::Mutex mutex_;
  std::map<Key, std::shared_ptr<metrics_internal::MetricSet>> sets_ STOCKADE_GUARDED_BY(mutex_);  // Only grows.
  // At most kMaxNames each.
  std::map<const metrics_internal::MetricDef*, std::set<std::string>> names_ STOCKADE_GUARDED_BY(mutex_);
  std::set<const metrics_internal::MetricDef*> warned_ STOCKADE_GUARDED_BY(mutex_);
};

}  // namespace stockade

#endif  // STOCKADE_METRICS_METRICS_REGISTRY_H_
