#include "zookeeper_url.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "stockade/base/percent_coding.h"
#include "stockade/base/strings.h"
#include "stockade/base/url_parts.h"

namespace stockade::locks_internal {
namespace {

constexpr std::string_view kWhat = "ZooKeeper URL";
constexpr std::string_view kScheme = "zookeeper://";
constexpr std::string_view kDefaultRoot = "/stockade/locks";
constexpr uint16_t kDefaultPort = 2181;
constexpr size_t kMaxBytes = 4096;
constexpr int kMaxMilliseconds = 86'400'000;

template <typename... Pieces>
absl::Status Invalid(const Pieces&... pieces) {
  return InvalidUrl(kWhat, pieces...);
}

absl::Status TakeServers(std::string_view hosts, ZooKeeperUrl& url) {
  for (std::optional<std::string_view> rest = hosts; rest;) {
    const auto [host, following] = SplitAt(*rest, ',');
    const absl::StatusOr<UrlEndpoint> server = ParseUrlEndpoint(kWhat, host, kDefaultPort);
    if (!server.ok()) return server.status();
    url.servers.push_back(Concat(server->host, ":", server->port));
    rest = following;
  }
  std::ranges::sort(url.servers);
  const auto doubles = std::ranges::unique(url.servers);
  url.servers.erase(doubles.begin(), doubles.end());
  return absl::OkStatus();
}

absl::Status TakeUser(std::string_view user_info, ZooKeeperUrl& url) {
  UrlCredentials credentials = DecodeUserInfo(user_info);
  if (credentials.username.empty() != credentials.password.empty()) {
    return Invalid("user and password go together, as user:password@");
  }
  if (credentials.username.find(':') != std::string::npos) return Invalid("a ZooKeeper user name must not have a ':'");
  url.user = std::move(credentials.username);
  url.password = std::move(credentials.password);
  return absl::OkStatus();
}

absl::Status TakeRoot(std::string_view path, ZooKeeperUrl& url) {
  url.root = PercentDecode(path);
  if (url.root.ends_with('/')) url.root.pop_back();
  if (url.root.empty()) url.root = kDefaultRoot;
  for (std::optional<std::string_view> rest = std::string_view(url.root).substr(1); rest;) {
    const auto [node, following] = SplitAt(*rest, '/');
    const bool printable = std::ranges::all_of(node, [](char byte) { return byte > ' ' && byte < 0x7f; });
    if (node.empty() || node == "." || node == ".." || !printable) {
      return Invalid("root ", QuotedUrlValue(url.root), " is not a path of nodes of printable ASCII");
    }
    rest = following;
  }
  if (absl::StartsWith(url.root + "/", "/zookeeper/")) {
    return Invalid("root ", QuotedUrlValue(url.root), " is reserved for ZooKeeper");
  }
  return absl::OkStatus();
}

absl::Status TakeMilliseconds(std::string_view name, std::string_view value, std::optional<absl::Duration>& into) {
  if (value.empty()) return absl::OkStatus();
  const std::optional<int> milliseconds = ParseUrlNumber(value, 1, kMaxMilliseconds);
  if (!milliseconds) return Invalid(name, " = ", QuotedUrlValue(value), " is not in 1..", kMaxMilliseconds);
  into = absl::Milliseconds(*milliseconds);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ZooKeeperUrl> ParseZooKeeperUrl(std::string_view text) {
  if (!absl::StartsWithIgnoreCase(AbslView(text), AbslView(kScheme)))
    return Invalid("it does not begin with ", kScheme);
  if (absl::Status bytes = CheckUrlBytes(kWhat, text, kMaxBytes); !bytes.ok()) return bytes;
  const absl::StatusOr<UrlParts> parts = SplitUrl(kWhat, text.substr(kScheme.size()));
  if (!parts.ok()) return parts.status();
  ZooKeeperUrl url;
  std::string tick;
  std::string session_timeout;
  UrlParameter parameters[] = {{.key = "tick_ms", .value = &tick},
                               {.key = "session_timeout_ms", .value = &session_timeout}};
  absl::Status taken = TakeUser(parts->user_info, url);
  if (taken.ok()) taken = TakeServers(parts->hosts, url);
  if (taken.ok()) taken = TakeRoot(parts->path, url);
  if (taken.ok()) taken = ParseUrlQuery(kWhat, parts->query, parameters);
  if (taken.ok()) taken = TakeMilliseconds("tick_ms", tick, url.tick);
  if (taken.ok()) taken = TakeMilliseconds("session_timeout_ms", session_timeout, url.session_timeout);
  if (!taken.ok()) return taken;
  return url;
}

}  // namespace stockade::locks_internal
