#ifndef STOCKADE_METRICS_METRICS_REGISTRY_H_
#define STOCKADE_METRICS_METRICS_REGISTRY_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
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
// Bounded: a registry has series for kMaxNames names of components of each kind, which it keeps for good. Components
// with further names share one series, in which each label given at construction is kOtherNames; a warning says so once
// a kind. A name that is made per customer or per request therefore costs a bound amount of memory and scrape time.
//
// Thread-safe. Collect() holds no lock that counting takes.
class STOCKADE_EXPORT MetricsRegistry final : public prometheus::Collectable {
 public:
  MetricsRegistry() = default;
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // The process-wide registry. Never destroyed.
  static MetricsRegistry* Default();

  // Names that have series of their own, of each kind of component; and the name of all others.
  static constexpr size_t kMaxNames = 1'000;
  static constexpr std::string_view kOtherNames = "_other";

  // All families, sorted by name. O(series * threads).
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  friend class internal::ComponentMetrics;

  using Key = std::pair<const internal::MetricDef*, internal::MetricLabels>;

  // Escapes values of labels that are not printable UTF-8: Prometheus would refuse the whole scrape because of one.
  std::shared_ptr<internal::MetricSet> SetFor(std::span<const internal::MetricDef> defs, internal::MetricLabels labels);

  // Whether the component that `labels` are of, by the first of them, has series of its own. With mutex_ held.
  bool HasOwnSeries(const internal::MetricDef* defs, const internal::MetricLabels& labels);

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<internal::MetricSet>> sets_;           // Guarded by mutex_. Only grows.
  std::map<const internal::MetricDef*, std::set<std::string>> names_;  // Guarded by mutex_. At most kMaxNames of each.
  std::set<const internal::MetricDef*> warned_;                        // Guarded by mutex_.
};

}  // namespace stockade

#endif  // STOCKADE_METRICS_METRICS_REGISTRY_H_
