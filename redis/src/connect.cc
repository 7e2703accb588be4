#include "connect.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "cluster_router.h"
#include "host_name.h"
#include "sentinel_router.h"
#include "single_router.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {

AllowedHosts::AllowedHosts(const RedisUrl& url, const RedisOptions& options)
    : who_(Concat("redis '", options.name, "'")) {
  if (options.allowed_hosts.empty()) return;
  for (const std::string& host : options.allowed_hosts) hosts_.push_back(absl::AsciiStrToLower(host));
  for (const RedisEndpoint& endpoint : url.endpoints) hosts_.push_back(absl::AsciiStrToLower(endpoint.host));
}

bool AllowedHosts::Contains(const RedisEndpoint& server) const {
  // Only the URL names a local socket.
  if (hosts_.empty() || !server.unix_socket.empty()) return true;
  const std::string host = absl::AsciiStrToLower(server.host);
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [&](const std::string& allowed) { return MatchesAllowedHost(host, allowed); });
}

absl::Status AllowedHosts::Check(const RedisEndpoint& server) const {
  if (Contains(server)) return absl::OkStatus();
  return absl::PermissionDeniedError(Concat(who_, ": the host of ", absl::CHexEscape(server.ToString()),
                                            " is not in RedisOptions.allowed_hosts; not connected"));
}

void AllowedHosts::Filter(std::vector<RedisEndpoint>& servers) const {
  std::erase_if(servers, [this](const RedisEndpoint& server) { return !Contains(server); });
}

LinkIdentity IdentityOf(const RedisUrl& url) {
  return {.username = url.username,
          .password = url.password,
          .database = url.database,
          .client_name = url.client_name,
          .identify_server = true};
}

PipelineOptions PipelineOptionsOf(const RedisOptions& options) {
  return {.name = Concat("redis '", options.name, "'"),
          .connect_timeout = options.connect_timeout,
          .min_backoff = options.min_backoff,
          .max_backoff = options.max_backoff,
          .max_pending_commands = options.max_pending_commands,
          .max_unsent_bytes = options.max_unsent_bytes,
          .max_silence = 2 * std::max(options.command_timeout, options.connect_timeout)};
}

std::unique_ptr<Router> MakeRouter(const RedisUrl& url, const RedisOptions& options, TimerQueue* timers,
                                   ComponentMetrics* metrics) {
  if (url.kind == RedisUrl::Kind::kSentinel) return std::make_unique<SentinelRouter>(url, options, timers, metrics);
  if (url.kind == RedisUrl::Kind::kCluster) return std::make_unique<ClusterRouter>(url, options, timers, metrics);
  LinkMaker make_link = [endpoint = url.endpoints.front(), identity = IdentityOf(url), most = options.max_reply_bytes](
                            Instant deadline) { return Link::Connect(endpoint, identity, most, deadline); };
  return std::make_unique<SingleRouter>(std::move(make_link), false, PipelineOptionsOf(options), timers, metrics);
}

}  // namespace stockade::redis_internal
