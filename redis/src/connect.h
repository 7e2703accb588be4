#ifndef STOCKADE_REDIS_CONNECT_H_
#define STOCKADE_REDIS_CONNECT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "router.h"
#include "stockade/base/timer_queue.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/redis/redis_endpoint.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_url.h"

namespace stockade::redis_internal {

// The router for what `url` names. All must outlive it. InvalidArgument if TLS cannot be used as they say.
absl::StatusOr<std::unique_ptr<Router>> MakeRouter(const RedisUrl& url, const RedisOptions& options, TimerQueue* timers,
                                                   ComponentMetrics* metrics);

// The hosts that a client may connect to. Immutable.
class AllowedHosts {
 public:
  // Those of `url` and RedisOptions::allowed_hosts, or all if that is empty.
  AllowedHosts(const RedisUrl& url, const RedisOptions& options);

  // PermissionDenied, which names the host.
  absl::Status Check(const RedisEndpoint& server) const;
  bool Contains(const RedisEndpoint& server) const;
  // Leaves only servers that may be connected to.
  void Filter(std::vector<RedisEndpoint>& servers) const;

 private:
  const std::string who_;           // For messages.
  std::vector<std::string> hosts_;  // In lower case. Empty: all.
};

// The client's identity, as `url` gives it. `tls` is null if the URL is one without TLS.
LinkIdentity IdentityOf(const RedisUrl& url, std::shared_ptr<TlsConfig> tls);

PipelineOptions PipelineOptionsOf(const RedisOptions& options);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_CONNECT_H_
