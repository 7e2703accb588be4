#include "mysql_url.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "stockade/base/percent_coding.h"
#include "stockade/base/strings.h"
#include "stockade/base/url_parts.h"

namespace stockade::locks_internal {
namespace {

constexpr std::string_view kWhat = "MySQL URL";
constexpr size_t kMaxUrlBytes = 4096;
constexpr size_t kMaxDatabaseBytes = 64;

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

absl::Status ParseParameters(std::string_view query, MySqlUrl& url, MySqlLockOptions& options) {
  std::string create_schema;
  std::string tls;
  UrlParameter known[] = {
      {"create_schema", &create_schema},       {"socket", &url.socket},
      {"table_prefix", &options.table_prefix}, {"tls", &tls},
      {"tls_ca", &options.tls_ca_file},        {"tls_cert", &options.tls_cert_file},
      {"tls_key", &options.tls_key_file},
  };
  if (absl::Status parsed = ParseUrlQuery(kWhat, query, known); !parsed.ok()) return parsed;
  if (create_schema == "0" || create_schema == "1") {
    options.create_schema = create_schema == "1";
  } else if (!create_schema.empty()) {
    return Invalid("create_schema=", QuotedUrlValue(create_schema), " is not 0 or 1");
  }
  return SetTls(tls, options.tls);
}

absl::Status ParseDatabase(std::string_view path, MySqlUrl& url) {
  if (!path.empty()) path.remove_prefix(1);
  url.database = PercentDecode(path);
  if (url.database.empty()) return Invalid("there is no /database after the host");
  if (url.database.size() > kMaxDatabaseBytes || std::ranges::any_of(url.database, absl::ascii_iscntrl)) {
    return Invalid("database ", QuotedUrlValue(url.database), " has more than ", kMaxDatabaseBytes,
                   " bytes, or control bytes");
  }
  return absl::OkStatus();
}

}  // namespace

std::string MySqlUrl::Endpoint() const {
  if (!socket.empty()) return socket;
  return host.find(':') == std::string::npos ? Concat(host, ":", port) : Concat("[", host, "]:", port);
}

absl::StatusOr<MySqlUrl> ParseMySqlUrl(std::string_view text, MySqlLockOptions& options) {
  if (absl::Status checked = CheckUrlBytes(kWhat, text, kMaxUrlBytes); !checked.ok()) return checked;
  const size_t separator = text.find("://");
  const std::string scheme = absl::AsciiStrToLower(AbslView(text.substr(0, std::min(separator, text.size()))));
  // Not shown: a host or a password may have got there.
  if (separator == std::string_view::npos || (scheme != "mysql" && scheme != "mariadb")) {
    return Invalid("it begins with neither mysql:// nor mariadb://");
  }
  const absl::StatusOr<UrlParts> parts = SplitUrl(kWhat, text.substr(separator + 3));
  if (!parts.ok()) return parts.status();
  MySqlUrl url;
  UrlCredentials credentials = DecodeUserInfo(parts->user_info);
  url.username = std::move(credentials.username);
  url.password = std::move(credentials.password);
  // The connector would stop reading at a NUL byte.
  if (url.username.find('\0') != std::string::npos || url.password.find('\0') != std::string::npos) {
    return Invalid("the user name or the password has a NUL byte");
  }
  if (absl::Status parsed = ParseParameters(parts->query, url, options); !parsed.ok()) return parsed;
  if (absl::Status checked = CheckSocketPath(kWhat, url.socket); !checked.ok()) return checked;
  if (url.socket.empty()) {
    if (parts->hosts.find(',') != std::string_view::npos) return Invalid("there is more than one host");
    absl::StatusOr<UrlEndpoint> endpoint = ParseUrlEndpoint(kWhat, parts->hosts, url.port);
    if (!endpoint.ok()) return endpoint.status();
    url.host = std::move(endpoint->host);
    url.port = endpoint->port;
  } else if (!parts->hosts.empty() && parts->hosts != "localhost") {
    return Invalid("with a socket, the host must be localhost or empty");
  }
  if (absl::Status parsed = ParseDatabase(parts->path, url); !parsed.ok()) return parsed;
  return url;
}

}  // namespace stockade::locks_internal
