#ifndef STOCKADE_CACHE_SRC_REDIS_TIER_METRICS_H_
#define STOCKADE_CACHE_SRC_REDIS_TIER_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "stockade/metrics/metric_set.h"

namespace stockade::cache_internal {

// Indices into TierCacheMetricDefs(): the metrics of one cache in a tier.
enum TierCacheMetric : size_t {
  kTierHit,  // In the order of TierAnswer::Kind.
  kTierGranted,
  kTierBusy,
  kTierAway,
  kTierUndecodable,
  kTierStored,  // In the order of TierFilled::Kind.
  kTierUnstored,
  kTierRefused,
  kTierFillAway,
  kTierAskSeconds,
  kTierFillSeconds,
  kTierLeases,
  kTierLeasesLost,
  kTierLeasesReturned,
  kTierInvalidationsOwn,
  kTierInvalidationsReported,
  kTierInvalidationSeconds,
  kTierInvalidationsPending,
  kTierInvalidationsDropped,
};

std::span<const MetricDef> TierCacheMetricDefs();

// Indices into TierMetricDefs(): the metrics of a tier.
enum TierMetric : size_t {
  kTierHeartbeatsOk,
  kTierHeartbeatsFailed,
  kTierHeartbeatsRefused,
  kTierHeartbeatSeconds,
  kTierTrusted,
  kTierIsAway,
  kTierReigns,
  kTierGaps,
  kTierTagsDropped,
  kTierSubscribed,
  kTierInvalidationMessages,
  kTierLeaseMessages,
};

std::span<const MetricDef> TierMetricDefs();

// The value of a counter; 0 if the metrics are disabled.
inline uint64_t CountOf(const ComponentMetrics& metrics, size_t counter) {
  return metrics.enabled() ? metrics.set()->CounterValue(counter) : 0;
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_TIER_METRICS_H_
