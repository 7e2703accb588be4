#ifndef STOCKADE_REDIS_REDIS_METRICS_H_
#define STOCKADE_REDIS_REDIS_METRICS_H_

#include <cstddef>
#include <span>

#include "stockade/metrics/metric_set.h"

namespace stockade::redis_internal {

// Indices of RedisMetricDefs().
enum RedisMetric : size_t {
  kRedisCommandSuccesses,
  kRedisCommandErrors,
  kRedisCommandTimeouts,
  kRedisCommandUnavailable,
  kRedisCommandUnknown,
  kRedisCommandRefused,
  kRedisCommandCancelled,
  kRedisRoundTripSeconds,
  kRedisPipelineCommands,
  kRedisConnectSuccesses,
  kRedisConnectErrors,
  kRedisConnectionsLost,
  kRedisPendingCommands,
  kRedisRetries,
  kRedisMessages,
  kRedisSubscriptions,
};

std::span<const MetricDef> RedisMetricDefs();

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_REDIS_METRICS_H_
