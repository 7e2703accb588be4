#include "stockade/redis/redis_url.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "host_name.h"
#include "stockade/base/percent_coding.h"
#include "stockade/base/strings.h"
#include "stockade/base/url_parts.h"

namespace stockade {
namespace {

using base_internal::AbslView;
using base_internal::PercentDecode;
using base_internal::PercentEncode;
using base_internal::SplitAt;

constexpr auto npos = std::string_view::npos;
constexpr std::string_view kMask = "***";

struct Scheme {
  std::string_view name;
  RedisUrl::Kind kind;
  uint16_t default_port;  // 0: a UNIX socket.
  bool tls = false;
};

constexpr Scheme kSchemes[] = {{"redis", RedisUrl::Kind::kStandalone, 6379},
                               {"unix", RedisUrl::Kind::kStandalone, 0},
                               {"redis+sentinel", RedisUrl::Kind::kSentinel, 26379},
                               {"redis+cluster", RedisUrl::Kind::kCluster, 6379},
                               {"rediss", RedisUrl::Kind::kStandalone, 6379, true},
                               {"rediss+sentinel", RedisUrl::Kind::kSentinel, 26379, true},
                               {"rediss+cluster", RedisUrl::Kind::kCluster, 6379, true}};

constexpr std::pair<std::string_view, RedisTlsVerify> kVerifies[] = {
    {"full", RedisTlsVerify::kFull}, {"chain", RedisTlsVerify::kChain}, {"none", RedisTlsVerify::kNone}};

constexpr std::string_view kWhat = "Redis URL";

template <typename... Pieces>
absl::Status Invalid(const Pieces&... pieces) {
  return base_internal::InvalidUrl(kWhat, pieces...);
}

absl::StatusOr<Scheme> ParseScheme(std::string_view text) {
  const std::string name = absl::AsciiStrToLower(AbslView(text));
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == name) return scheme;
  }
  // What is no scheme at all, a host or a password may have got into.
  const bool shown = std::ranges::all_of(name, [](char byte) { return absl::ascii_isalnum(byte) || byte == '+'; });
  return Invalid("the scheme", shown ? " " : "", shown ? base_internal::QuotedUrlValue(name) : "",
                 " is not one of redis, unix, redis+sentinel, redis+cluster, rediss, rediss+sentinel, rediss+cluster");
}

absl::Status ParseEndpoints(std::string_view hosts, uint16_t default_port, RedisUrl& url) {
  const auto count = static_cast<size_t>(std::ranges::count(hosts, ',')) + 1;
  if (count > kMaxRedisUrlEndpoints) return Invalid(count, " hosts are more than ", kMaxRedisUrlEndpoints);
  if (url.kind == RedisUrl::Kind::kStandalone && count > 1) {
    return Invalid(
        count, " hosts, but redis:// and rediss:// accept one; lists are for redis+sentinel:// and redis+cluster://");
  }
  for (std::optional<std::string_view> rest = hosts; rest.has_value();) {
    std::string_view host;
    std::tie(host, rest) = SplitAt(*rest, ',');
    absl::StatusOr<base_internal::UrlEndpoint> endpoint = base_internal::ParseUrlEndpoint(kWhat, host, default_port);
    if (!endpoint.ok()) return endpoint.status();
    url.endpoints.push_back({.host = std::move(endpoint->host), .port = endpoint->port});
  }
  return absl::OkStatus();
}

absl::Status ParseSocket(std::string_view path, RedisUrl& url) {
  std::string socket = PercentDecode(path);
  if (socket.size() < 2) return Invalid("unix:// needs the path of a socket");
  if (absl::Status checked = base_internal::CheckSocketPath(kWhat, socket); !checked.ok()) return checked;
  url.endpoints.push_back({.unix_socket = std::move(socket)});
  return absl::OkStatus();
}

absl::Status ParseDatabase(std::string_view text, RedisUrl& url) {
  const auto database = base_internal::ParseUrlNumber(text, 0, INT_MAX);
  if (!database.has_value())
    return Invalid("database ", base_internal::QuotedUrlValue(text), " is not a number in 0..", INT_MAX);
  url.database = *database;
  if (url.kind == RedisUrl::Kind::kCluster && url.database != 0) {
    return Invalid("database ", url.database, ": a Redis Cluster has only database 0");
  }
  return absl::OkStatus();
}

// The path of a URL with hosts: [/master-name][/database].
absl::Status ParsePath(std::string_view path, RedisUrl& url) {
  if (!path.empty()) path.remove_prefix(1);
  std::optional<std::string_view> database = path;
  if (url.kind == RedisUrl::Kind::kSentinel) {
    std::string_view name;
    std::tie(name, database) = SplitAt(path, '/');
    url.master_name = PercentDecode(name);
    if (url.master_name.empty()) return Invalid("redis+sentinel:// needs a /master-name after the hosts");
    if (std::ranges::any_of(url.master_name, absl::ascii_iscntrl)) {
      return Invalid("master name ", base_internal::QuotedUrlValue(url.master_name), " has control bytes");
    }
  }
  return database.value_or("").empty() ? absl::OkStatus() : ParseDatabase(PercentDecode(*database), url);
}

absl::Status CheckTls(const std::string& verify, RedisTlsOptions& tls) {
  const auto is_bad = [](const std::string& file) { return std::ranges::any_of(file, absl::ascii_iscntrl); };
  for (const auto& [key, file] : {std::pair("tls_ca", &tls.ca_file), std::pair("tls_cert", &tls.cert_file),
                                  std::pair("tls_key", &tls.key_file)}) {
    if (is_bad(*file)) return Invalid(key, " ", base_internal::QuotedUrlValue(*file), " has control bytes");
  }
  if (!tls.server_name.empty() && !redis_internal::IsHostName(tls.server_name)) {
    return Invalid("tls_server_name ", base_internal::QuotedUrlValue(tls.server_name),
                   " is not a host name or an address");
  }
  if (verify.empty()) return absl::OkStatus();
  const auto known = std::ranges::find(kVerifies, verify, &std::pair<std::string_view, RedisTlsVerify>::first);
  if (known == std::end(kVerifies)) {
    return Invalid("tls_verify ", base_internal::QuotedUrlValue(verify), " is not one of full, chain, none");
  }
  tls.verify = known->second;
  return absl::OkStatus();
}

absl::Status ParseParameters(std::string_view query, bool is_unix, RedisUrl& url) {
  std::string database = "0";
  std::vector<base_internal::UrlParameter> known = {{"client_name", &url.client_name}};
  if (is_unix) known.push_back({"db", &database});
  if (url.kind == RedisUrl::Kind::kSentinel) {
    known.push_back({"sentinel_username", &url.sentinel_username});
    known.push_back({"sentinel_password", &url.sentinel_password});
  }
  std::string verify;
  if (url.tls.has_value()) {
    known.push_back({"tls_ca", &url.tls->ca_file});
    known.push_back({"tls_cert", &url.tls->cert_file});
    known.push_back({"tls_key", &url.tls->key_file});
    known.push_back({"tls_server_name", &url.tls->server_name});
    known.push_back({"tls_verify", &verify});
  }
  if (absl::Status parsed = base_internal::ParseUrlQuery(kWhat, query, known); !parsed.ok()) return parsed;
  if (url.tls.has_value()) {
    if (absl::Status checked = CheckTls(verify, *url.tls); !checked.ok()) return checked;
  }
  if (!std::ranges::all_of(url.client_name, absl::ascii_isgraph)) {
    return Invalid("client name ", base_internal::QuotedUrlValue(url.client_name),
                   " has bytes other than printable ASCII without blanks");
  }
  return is_unix ? ParseDatabase(database, url) : absl::OkStatus();
}

// What stands before the hosts, with its '@'.
std::string RedactedUserInfo(const RedisUrl& url) {
  if (!url.password.empty()) return base_internal::Concat(PercentEncode(url.username), ":", kMask, "@");
  return url.username.empty() ? "" : base_internal::Concat(kMask, "@");
}

std::string RedactedQuery(const RedisUrl& url, bool is_unix) {
  std::string query;
  const auto add = [&query](std::string_view key, const std::string& value) {
    absl::StrAppend(&query, query.empty() ? "?" : "&", AbslView(key), "=", value);
  };
  if (is_unix && url.database != 0) add("db", absl::StrCat(url.database));
  if (!url.client_name.empty()) add("client_name", PercentEncode(url.client_name));
  if (!url.sentinel_username.empty()) add("sentinel_username", PercentEncode(url.sentinel_username));
  if (!url.sentinel_password.empty()) add("sentinel_password", std::string(kMask));
  if (!url.tls.has_value()) return query;
  if (!url.tls->ca_file.empty()) add("tls_ca", PercentEncode(url.tls->ca_file, "/"));
  if (!url.tls->cert_file.empty()) add("tls_cert", PercentEncode(url.tls->cert_file, "/"));
  if (!url.tls->key_file.empty()) add("tls_key", PercentEncode(url.tls->key_file, "/"));
  if (!url.tls->server_name.empty()) add("tls_server_name", PercentEncode(url.tls->server_name));
  for (const auto& [name, verify] : kVerifies) {
    if (url.tls->verify == verify) add("tls_verify", std::string(name));
  }
  return query;
}

}  // namespace

absl::StatusOr<RedisUrl> ParseRedisUrl(std::string_view text) {
  if (absl::Status checked = base_internal::CheckUrlBytes(kWhat, text, kMaxRedisUrlBytes); !checked.ok())
    return checked;
  const size_t separator = text.find("://");
  if (separator == npos) return Invalid("there is no '://' after a scheme");
  const absl::StatusOr<Scheme> scheme = ParseScheme(text.substr(0, separator));
  if (!scheme.ok()) return scheme.status();
  const absl::StatusOr<base_internal::UrlParts> parts = base_internal::SplitUrl(kWhat, text.substr(separator + 3));
  if (!parts.ok()) return parts.status();

  RedisUrl url = {.kind = scheme->kind};
  if (scheme->tls) url.tls.emplace();
  // For one host the last '@' is what everybody takes. Before a list, it may as well be a password before each host.
  if (url.kind != RedisUrl::Kind::kStandalone && parts->user_info.find('@') != npos) {
    return Invalid("more than one '@': write user name and password once, before all hosts, and an '@' in them as %40");
  }
  base_internal::UrlCredentials credentials = base_internal::DecodeUserInfo(parts->user_info);
  url.username = std::move(credentials.username);
  url.password = std::move(credentials.password);
  const bool is_unix = scheme->default_port == 0;
  if (is_unix) {
    // Not shown: in unix://user:secret it is a password.
    if (!parts->hosts.empty()) return Invalid("only user:password@ may be between unix:// and the path");
    if (absl::Status parsed = ParseSocket(parts->path, url); !parsed.ok()) return parsed;
  } else {
    if (absl::Status parsed = ParseEndpoints(parts->hosts, scheme->default_port, url); !parsed.ok()) return parsed;
    if (absl::Status parsed = ParsePath(parts->path, url); !parsed.ok()) return parsed;
  }
  if (absl::Status parsed = ParseParameters(parts->query, is_unix, url); !parsed.ok()) return parsed;
  return url;
}

std::string Redacted(const RedisUrl& url) {
  const bool is_unix = !url.endpoints.empty() && !url.endpoints.front().unix_socket.empty();
  const auto scheme = std::ranges::find_if(kSchemes, [&](const Scheme& each) {
    return each.kind == url.kind && is_unix == (each.default_port == 0) && each.tls == url.tls.has_value();
  });
  std::string text = base_internal::Concat(scheme->name, "://", RedactedUserInfo(url));
  if (is_unix) {
    text += PercentEncode(url.endpoints.front().unix_socket, "/");
  } else {
    const char* separator = "";
    for (const RedisEndpoint& endpoint : url.endpoints) {
      absl::StrAppend(&text, std::exchange(separator, ","), absl::StrReplaceAll(endpoint.ToString(), {{"%", "%25"}}));
    }
    if (url.kind == RedisUrl::Kind::kSentinel) absl::StrAppend(&text, "/", PercentEncode(url.master_name));
    if (url.database != 0) absl::StrAppend(&text, "/", url.database);
  }
  return text + RedactedQuery(url, is_unix);
}

}  // namespace stockade
