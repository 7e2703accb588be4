#include "stockade/mysql/internal/mysql_url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "stockade/base/percent_coding.h"
#include "stockade/base/strings.h"

namespace stockade::mysql_internal {
namespace {

constexpr std::string_view kWhat = "MySQL URL";
constexpr size_t kMaxUrlBytes = 4096;
constexpr size_t kMaxDatabaseBytes = 64;
constexpr size_t kMaxPluginBytes = 64;

template <typename... Pieces>
absl::Status Invalid(const Pieces&... pieces) {
  return InvalidUrl(kWhat, pieces...);
}

absl::Status SetTls(const std::string& value, MySqlTls& tls) {
  if (value == "off") {
    tls = MySqlTls::kOff;
  } else if (value == "required") {
    tls = MySqlTls::kRequired;
  } else if (value == "verify") {
    tls = MySqlTls::kVerify;
  } else if (!value.empty()) {
    return Invalid("tls=", QuotedUrlValue(value), " is not one of off, required, verify");
  }
  return absl::OkStatus();
}

absl::Status CheckPlugin(const MySqlTarget& target) {
  const std::string& plugin = target.auth_plugin;
  const bool is_name = std::ranges::all_of(plugin, [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  if (plugin.size() > kMaxPluginBytes || !is_name) {
    return Invalid("auth_plugin=", QuotedUrlValue(plugin), " is not the name of a plug-in");
  }
  if (!plugin.empty() && target.tls != MySqlTls::kVerify && target.socket.empty()) {
    return Invalid("auth_plugin=", plugin, " needs tls=verify or a socket: others may get the password by it");
  }
  return absl::OkStatus();
}

// Localhost, 127.0.0.0/8 and ::1, as text: a name of another kind is not resolved here.
bool IsLoopback(std::string_view host) {
  if (absl::EqualsIgnoreCase(AbslView(host), "localhost") || host == "::1") return true;
  in_addr address;
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

absl::Status ParseParameters(std::string_view query, std::span<const UrlParameter> more, MySqlTarget& target) {
  std::string tls;
  std::vector<UrlParameter> known = {
      {"auth_plugin", &target.auth_plugin}, {"socket", &target.socket},          {"tls", &tls},
      {"tls_ca", &target.tls_ca_file},      {"tls_cert", &target.tls_cert_file}, {"tls_key", &target.tls_key_file}};
  known.insert(known.end(), more.begin(), more.end());
  std::ranges::sort(known, {}, &UrlParameter::key);  // The order in which an error lists them.
  if (absl::Status parsed = ParseUrlQuery(kWhat, query, known); !parsed.ok()) return parsed;
  return SetTls(tls, target.tls);
}

absl::Status ParseDatabase(std::string_view path, MySqlTarget& target) {
  if (!path.empty()) path.remove_prefix(1);
  target.database = PercentDecode(path);
  if (target.database.empty()) return Invalid("there is no /database after the host");
  if (target.database.size() > kMaxDatabaseBytes || std::ranges::any_of(target.database, absl::ascii_iscntrl)) {
    return Invalid("database ", QuotedUrlValue(target.database), " has more than ", kMaxDatabaseBytes,
                   " bytes, or control bytes");
  }
  return absl::OkStatus();
}

}  // namespace

std::string MySqlTarget::Endpoint() const {
  if (!socket.empty()) return socket;
  return host.find(':') == std::string::npos ? Concat(host, ":", port) : Concat("[", host, "]:", port);
}

absl::StatusOr<MySqlTarget> ParseMySqlUrl(std::string_view url, MySqlTarget target,
                                          std::span<const UrlParameter> more) {
  if (absl::Status checked = CheckUrlBytes(kWhat, url, kMaxUrlBytes); !checked.ok()) return checked;
  const size_t separator = url.find("://");
  const std::string scheme = absl::AsciiStrToLower(AbslView(url.substr(0, std::min(separator, url.size()))));
  // Not shown: a host or a password may have got there.
  if (separator == std::string_view::npos || (scheme != "mysql" && scheme != "mariadb")) {
    return Invalid("it begins with neither mysql:// nor mariadb://");
  }
  const absl::StatusOr<UrlParts> parts = SplitUrl(kWhat, url.substr(separator + 3));
  if (!parts.ok()) return parts.status();
  UrlCredentials credentials = DecodeUserInfo(parts->user_info);
  target.username = std::move(credentials.username);
  target.password = std::move(credentials.password);
  // The connector would stop reading at a NUL byte.
  if (target.username.find('\0') != std::string::npos || target.password.find('\0') != std::string::npos) {
    return Invalid("the user name or the password has a NUL byte");
  }
  if (absl::Status parsed = ParseParameters(parts->query, more, target); !parsed.ok()) return parsed;
  if (absl::Status checked = CheckSocketPath(kWhat, target.socket); !checked.ok()) return checked;
  if (target.socket.empty()) {
    if (parts->hosts.find(',') != std::string_view::npos) return Invalid("there is more than one host");
    absl::StatusOr<UrlEndpoint> endpoint = ParseUrlEndpoint(kWhat, parts->hosts, target.port);
    if (!endpoint.ok()) return endpoint.status();
    target.host = std::move(endpoint->host);
    target.port = endpoint->port;
  } else if (!parts->hosts.empty() && parts->hosts != "localhost") {
    return Invalid("with a socket, the host must be localhost or empty");
  }
  if (target.tls == MySqlTls::kDefault) {
    target.tls = target.socket.empty() && !IsLoopback(target.host) ? MySqlTls::kVerify : MySqlTls::kOff;
  }
  if (absl::Status checked = CheckPlugin(target); !checked.ok()) return checked;
  if (absl::Status parsed = ParseDatabase(parts->path, target); !parsed.ok()) return parsed;
  return target;
}

}  // namespace stockade::mysql_internal
