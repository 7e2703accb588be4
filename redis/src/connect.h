#ifndef STOCKADE_REDIS_CONNECT_H_
#define STOCKADE_REDIS_CONNECT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "router.h"
#include "stockade/base/timer_queue.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_url.h"

namespace stockade::internal {

// The router for what `url` names. All must outlive it.
std::unique_ptr<Router> MakeRouter(const RedisUrl& url, const RedisOptions& options, TimerQueue* timers,
                                   ComponentMetrics* metrics);

// Who we are, as `url` says.
LinkIdentity IdentityOf(const RedisUrl& url);

PipelineOptions PipelineOptionsOf(const RedisOptions& options);

}  // namespace stockade::internal

#endif  // STOCKADE_REDIS_CONNECT_H_
