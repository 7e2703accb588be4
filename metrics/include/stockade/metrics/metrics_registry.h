#ifndef STOCKADE_METRICS_METRICS_REGISTRY_H_
#define STOCKADE_METRICS_METRICS_REGISTRY_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "stockade/base/export.h"
#include "stockade/metrics/metric_set.h"

namespace stockade {

// Adds up what components count, when Prometheus asks. Components take a registry through their options: the
// process-wide one unless told otherwise, nullptr for none. Hand it to a prometheus::Exposer of your own, or start a
// MetricsServer.
//
// Components of one kind and name share one series. What a destroyed component had counted stays in the sums, so no
// rate ever jumps; its gauges go with it. A registry may be destroyed before or after its components.
//
// Thread-safe. Collect() holds no lock that counting takes.
class STOCKADE_EXPORT MetricsRegistry final : public prometheus::Collectable {
 public:
  MetricsRegistry() = default;
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // The process-wide registry. Never destroyed.
  static MetricsRegistry* Default();

  // All families, sorted by name. O(series * threads).
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  friend class internal::ComponentMetrics;

  using Key = std::pair<const internal::MetricDef*, internal::MetricLabels>;

  std::shared_ptr<internal::MetricSet> SetFor(std::span<const internal::MetricDef> defs, internal::MetricLabels labels);

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<internal::MetricSet>> sets_;  // Guarded by mutex_. Only grows.
};

}  // namespace stockade

#endif  // STOCKADE_METRICS_METRICS_REGISTRY_H_
