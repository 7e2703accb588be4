#include "connect.h"

#include <utility>

#include "cluster_router.h"
#include "sentinel_router.h"
#include "single_router.h"
#include "stockade/base/strings.h"

namespace stockade::internal {

LinkIdentity IdentityOf(const RedisUrl& url) {
  return {.username = url.username, .password = url.password, .database = url.database, .client_name = url.client_name};
}

PipelineOptions PipelineOptionsOf(const RedisOptions& options) {
  return {.name = Concat("redis '", options.name, "'"),
          .connect_timeout = options.connect_timeout,
          .min_backoff = options.min_backoff,
          .max_backoff = options.max_backoff,
          .max_pending_commands = options.max_pending_commands,
          .max_unsent_bytes = options.max_unsent_bytes};
}

std::unique_ptr<Router> MakeRouter(const RedisUrl& url, const RedisOptions& options, TimerQueue* timers,
                                   ComponentMetrics* metrics) {
  if (url.kind == RedisUrl::Kind::kSentinel) return std::make_unique<SentinelRouter>(url, options, timers, metrics);
  if (url.kind == RedisUrl::Kind::kCluster) return std::make_unique<ClusterRouter>(url, options, timers, metrics);
  LinkMaker make_link = [endpoint = url.endpoints.front(), identity = IdentityOf(url), most = options.max_reply_bytes](
                            Instant deadline) { return Link::Connect(endpoint, identity, most, deadline); };
  return std::make_unique<SingleRouter>(std::move(make_link), false, PipelineOptionsOf(options), timers, metrics);
}

}  // namespace stockade::internal
