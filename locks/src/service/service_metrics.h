#ifndef STOCKADE_LOCKS_SRC_SERVICE_SERVICE_METRICS_H_
#define STOCKADE_LOCKS_SRC_SERVICE_SERVICE_METRICS_H_

#include <cstddef>
#include <span>

#include "stockade/metrics/metric_set.h"

namespace stockade::locks_internal {

// Indices of ServiceMetricDefs().
enum ServiceMetric : size_t {
  kServiceAcquired,
  kServiceBusy,
  kServiceUnavailable,
  kServiceCancelled,
  kServiceRefused,
  kServiceWaitSeconds,
  kServiceHoldSeconds,
  kServiceHeld,
  kServiceWaiters,
  kServiceRenewed,
  kServiceRenewalsLost,
  kServiceRenewalErrors,
  kServiceRenewalDelaySeconds,
  kServiceLostExpired,
  kServiceLostGone,
  kServiceRoundTrips,
  kServiceEngineErrors,
};

std::span<const MetricDef> ServiceMetricDefs();

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_SERVICE_METRICS_H_
