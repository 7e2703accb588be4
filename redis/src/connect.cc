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

LinkIdentity IdentityOf(const RedisUrl& url, std::shared_ptr<TlsConfig> tls) {
  return {.username = url.username,
          .password = url.password,
          .database = url.database,
          .client_name = url.client_name,
          .name_process = true,
          .identify_server = true,
          .tls = std::move(tls)};
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

namespace {

// Null for a URL without TLS.
absl::StatusOr<std::shared_ptr<TlsConfig>> MakeTls(const RedisUrl& url, const RedisOptions& options) {
  if (!url.tls.has_value()) {
    if (options.tls == RedisTlsOptions()) return nullptr;
    return absl::InvalidArgumentError(
        Concat("redis '", options.name, "': RedisOptions.tls is set, but the URL is ", "without TLS: ", Redacted(url)));
  }
  RedisTlsOptions tls = options.tls;
  const auto take = [](const std::string& given, std::string& field) {
    if (!given.empty()) field = given;
  };
  take(url.tls->ca_file, tls.ca_file);
  take(url.tls->cert_file, tls.cert_file);
  take(url.tls->key_file, tls.key_file);
  take(url.tls->server_name, tls.server_name);
  if (url.tls->verify.has_value()) tls.verify = url.tls->verify;
  if (absl::Status valid = tls.Validate(); !valid.ok()) return valid;
  return TlsConfig::Create(tls);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Router>> MakeRouter(const RedisUrl& url, const RedisOptions& options, TimerQueue* timers,
                                                   ComponentMetrics* metrics) {
  absl::StatusOr<std::shared_ptr<TlsConfig>> tls = MakeTls(url, options);
  if (!tls.ok()) return tls.status();
  if (url.kind == RedisUrl::Kind::kSentinel) {
    return std::make_unique<SentinelRouter>(url, options, *std::move(tls), timers, metrics);
  }
  if (url.kind == RedisUrl::Kind::kCluster) {
    return std::make_unique<ClusterRouter>(url, options, *std::move(tls), timers, metrics);
  }
  LinkMaker make_link = [endpoint = url.endpoints.front(), identity = IdentityOf(url, *std::move(tls)),
                         most = options.max_reply_bytes](Instant deadline) {
    return Link::Connect(endpoint, identity, most, deadline);
  };
  return std::make_unique<SingleRouter>(std::move(make_link), false, PipelineOptionsOf(options), timers, metrics);
}

}  // namespace stockade::redis_internal
