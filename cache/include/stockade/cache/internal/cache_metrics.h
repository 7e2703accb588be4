#ifndef STOCKADE_CACHE_INTERNAL_CACHE_METRICS_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_METRICS_H_

#include <cstddef>
#include <span>

#include "stockade/metrics/metric_set.h"

namespace stockade {
struct CacheStats;
}

namespace stockade::cache_internal {

// Indices into CacheMetricDefs(). Each request counts as exactly one of the first five.
enum CacheMetric : size_t {
  kRequestHit,        // Answered with a fresh value.
  kRequestStale,      // Answered with an expired value.
  kRequestMiss,       // Started a load, was refused one, or (GetIfPresent) found nothing.
  kRequestCoalesced,  // Waited for a load that another call or a refresh had started.
  kRequestNegative,   // Answered with a cached absence.
  kLoadSuccess,
  kLoadNotFound,
  kLoadNotModified,
  kLoadError,
  kLoadTimeout,  // Past its hard time-out, whatever it returned.
  kLoadSeconds,
  kWaitSeconds,
  kFlights,
  kWaiters,
  kEntries,
  kWeight,
  kMaxWeight,
  kEvictionSize,
  kEvictionExpired,
  kEvictionInvalidated,
  kRefreshAhead,
  kRefreshXFetch,
  kRefreshStale,
  kRefreshManual,
  kRefreshWarmUp,
  kHashCollisions,
};

std::span<const MetricDef> CacheMetricDefs();

// The counts of a set with these metrics.
void ReadCounts(const MetricSet& set, CacheStats& stats);

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_METRICS_H_
