#include "stockade/redis/redis_url.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "stockade/base/percent_coding.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

using internal::AbslView;
using internal::PercentDecode;
using internal::PercentEncode;

constexpr auto npos = std::string_view::npos;
constexpr std::string_view kMask = "***";

struct Scheme {
  std::string_view name;
  RedisUrl::Kind kind;
  uint16_t default_port;  // 0: a UNIX socket.
};

constexpr Scheme kSchemes[] = {{"redis", RedisUrl::Kind::kStandalone, 6379},
                               {"unix", RedisUrl::Kind::kStandalone, 0},
                               {"redis+sentinel", RedisUrl::Kind::kSentinel, 26379},
                               {"redis+cluster", RedisUrl::Kind::kCluster, 6379}};
constexpr std::string_view kTlsSchemes[] = {"rediss", "rediss+sentinel", "rediss+cluster"};

template <typename... Pieces>
absl::Status Invalid(const Pieces&... pieces) {
  return absl::InvalidArgumentError(internal::Concat("Redis URL: ", pieces...));
}

std::string Quoted(std::string_view value) { return absl::StrCat("'", absl::CEscape(AbslView(value)), "'"); }

// `text` up to the first `separator`, and what follows that, if it is there.
std::pair<std::string_view, std::optional<std::string_view>> SplitAt(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == npos) return {text, std::nullopt};
  return {text.substr(0, at), text.substr(at + 1)};
}

bool IsDigits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, absl::ascii_isdigit); }

std::optional<int> ParseNumber(std::string_view text, int min, int max) {
  int number = 0;
  if (!IsDigits(text) || !absl::SimpleAtoi(AbslView(text), &number) || number < min || number > max)
    return std::nullopt;
  return number;
}

// Blanks and control characters, as a line's end read along with a secret, are found here for every part at once; and
// bad escapes, so that decoding cannot fail. Positions instead of values: it may be a password.
absl::Status CheckBytes(std::string_view url) {
  if (url.size() > kMaxRedisUrlBytes) return Invalid(url.size(), " bytes are more than ", kMaxRedisUrlBytes);
  for (size_t at = 0; at < url.size(); ++at) {
    const auto byte = static_cast<unsigned char>(url[at]);
    if (byte <= ' ' || byte == 0x7f) {
      return Invalid("byte 0x", absl::Hex(byte, absl::kZeroPad2), " at position ", at,
                     " must not stand there, or be written as %", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  if (const auto bad = internal::FindBadEscape(url)) {
    return Invalid("two hexadecimal digits do not follow the '%' at position ", *bad, "; a percent sign is %25");
  }
  return absl::OkStatus();
}

absl::StatusOr<Scheme> ParseScheme(std::string_view text) {
  const std::string name = absl::AsciiStrToLower(AbslView(text));
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == name) return scheme;
  }
  if (std::ranges::find(kTlsSchemes, name) != std::end(kTlsSchemes)) {
    return absl::UnimplementedError(internal::Concat("Redis URL: ", name, "://: this build of Stockade has no TLS"));
  }
  // What is no scheme at all, a host or a password may have got into.
  const bool shown = std::ranges::all_of(name, [](char byte) { return absl::ascii_isalnum(byte) || byte == '+'; });
  return Invalid("the scheme", shown ? " " : "", shown ? Quoted(name) : "",
                 " is not one of redis, unix, redis+sentinel, redis+cluster");
}

// scheme://authority/path?query
struct Parts {
  std::string_view authority;
  std::string_view path;   // With its '/', or empty.
  std::string_view query;  // Without its '?'.
};

absl::StatusOr<Parts> Split(std::string_view rest) {
  const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  const std::string_view authority = rest.substr(0, end);
  const std::string_view tail = rest.substr(end);
  // Most likely a password that has one of those; no part of it may get into a message as a port or a database.
  if (!authority.empty() && tail.find('@') != npos) {
    return Invalid("an '@' stands behind the first '/', '?' or '#': write %40 for it; and in user names and passwords",
                   " write %2F, %3F and %23 for those");
  }
  if (tail.find('#') != npos) return Invalid("a '#' must be written as %23");
  const auto [path, query] = SplitAt(tail, '?');
  return Parts{authority, path, query.value_or("")};
}

// Takes `user[:password]@` off the authority, and gives what is left.
absl::StatusOr<std::string_view> ParseUserInfo(std::string_view authority, RedisUrl& url) {
  const size_t end = authority.rfind('@');
  if (end == npos) return authority;
  const std::string_view info = authority.substr(0, end);
  // For one host the last '@' is what everybody takes. Before a list, it may as well be a password before each host.
  if (url.kind != RedisUrl::Kind::kStandalone && info.find('@') != npos) {
    return Invalid("more than one '@': user name and password stand once, before all hosts; an '@' in them is %40");
  }
  const auto [username, password] = SplitAt(info, ':');
  url.username = PercentDecode(username);
  url.password = PercentDecode(password.value_or(""));
  return authority.substr(end + 1);
}

bool IsIpv6(const std::string& host) {
  const auto [address, zone] = SplitAt(host, '%');
  if (address.find('\0') != npos) return false;  // Where inet_pton() would stop to read.
  in6_addr parsed;
  if (inet_pton(AF_INET6, std::string(address).c_str(), &parsed) != 1) return false;
  return !zone.has_value() || (!zone->empty() && std::ranges::all_of(*zone, absl::ascii_isalnum));
}

bool IsHostByte(char byte) { return absl::ascii_isalnum(byte) || byte == '-' || byte == '.' || byte == '_'; }

absl::StatusOr<uint16_t> ParsePort(std::string_view text, std::string_view host) {
  const auto port = ParseNumber(text, 1, UINT16_MAX);
  if (port.has_value()) return static_cast<uint16_t>(*port);
  // In redis://user:secret the host was forgotten, and this is the password.
  if (!IsDigits(text)) return Invalid("the port of host ", Quoted(host), " is not a number");
  return Invalid("port ", text, " of host ", Quoted(host), " is not in 1..", UINT16_MAX);
}

absl::StatusOr<RedisEndpoint> ParseEndpoint(std::string_view text, uint16_t default_port) {
  RedisEndpoint endpoint = {.port = default_port};
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const auto [address, rest] = SplitAt(text.substr(1), ']');
    if (!rest.has_value()) return Invalid("a ']' is missing behind ", Quoted(text));
    endpoint.host = PercentDecode(address);
    if (!IsIpv6(endpoint.host)) return Invalid("host ", Quoted(endpoint.host), " in brackets is no IPv6 address");
    if (!rest->empty() && !rest->starts_with(':')) return Invalid("only a port may follow ", Quoted(endpoint.host));
    if (!rest->empty()) port = rest->substr(1);
  } else {
    std::string_view host;
    std::tie(host, port) = SplitAt(text, ':');
    endpoint.host = PercentDecode(host);
    if (endpoint.host.empty()) return Invalid("a host is empty");
    if (!std::ranges::all_of(endpoint.host, IsHostByte)) {
      return Invalid("host ", Quoted(endpoint.host), " has other bytes than letters, digits, '-', '.' and '_'");
    }
    if (port.has_value() && port->find(':') != npos) {
      return Invalid("a host has more than one ':'; an IPv6 address stands in brackets");
    }
  }
  if (port.has_value()) {
    const absl::StatusOr<uint16_t> parsed = ParsePort(*port, endpoint.host);
    if (!parsed.ok()) return parsed.status();
    endpoint.port = *parsed;
  }
  return endpoint;
}

absl::Status ParseEndpoints(std::string_view hosts, uint16_t default_port, RedisUrl& url) {
  const auto count = static_cast<size_t>(std::ranges::count(hosts, ',')) + 1;
  if (count > kMaxRedisUrlEndpoints) return Invalid(count, " hosts are more than ", kMaxRedisUrlEndpoints);
  if (url.kind == RedisUrl::Kind::kStandalone && count > 1) {
    return Invalid(count, " hosts, but redis:// takes one; lists are for redis+sentinel:// and redis+cluster://");
  }
  for (std::optional<std::string_view> rest = hosts; rest.has_value();) {
    std::string_view host;
    std::tie(host, rest) = SplitAt(*rest, ',');
    absl::StatusOr<RedisEndpoint> endpoint = ParseEndpoint(host, default_port);
    if (!endpoint.ok()) return endpoint.status();
    url.endpoints.push_back(*std::move(endpoint));
  }
  return absl::OkStatus();
}

absl::Status ParseSocket(std::string_view path, RedisUrl& url) {
  constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
  std::string socket = PercentDecode(path);
  if (socket.size() < 2) return Invalid("unix:// has no path of a socket behind it");
  if (socket.size() > kMaxPathBytes) {
    return Invalid("a socket's path has at most ", kMaxPathBytes, " bytes, and ", Quoted(socket), " has ",
                   socket.size());
  }
  if (std::ranges::any_of(socket, absl::ascii_iscntrl)) return Invalid("socket ", Quoted(socket), " has control bytes");
  url.endpoints.push_back({.unix_socket = std::move(socket)});
  return absl::OkStatus();
}

absl::Status ParseDatabase(std::string_view text, RedisUrl& url) {
  const auto database = ParseNumber(text, 0, INT_MAX);
  if (!database.has_value()) return Invalid("database ", Quoted(text), " is not a number in 0..", INT_MAX);
  url.database = *database;
  if (url.kind == RedisUrl::Kind::kCluster && url.database != 0) {
    return Invalid("database ", url.database, ": a Redis Cluster has database 0 alone");
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
    if (url.master_name.empty()) return Invalid("redis+sentinel:// has no /master-name behind the hosts");
    if (std::ranges::any_of(url.master_name, absl::ascii_iscntrl)) {
      return Invalid("master name ", Quoted(url.master_name), " has control bytes");
    }
  }
  return database.value_or("").empty() ? absl::OkStatus() : ParseDatabase(PercentDecode(*database), url);
}

struct Parameter {
  std::string_view key;
  std::string* value;
  bool seen = false;
};

absl::Status ParseQuery(std::string_view query, std::span<Parameter> known) {
  if (query.empty()) return absl::OkStatus();
  for (std::optional<std::string_view> rest = query; rest.has_value();) {
    std::string_view piece;
    std::tie(piece, rest) = SplitAt(*rest, '&');
    const auto [raw_key, value] = SplitAt(piece, '=');
    const std::string key = PercentDecode(raw_key);
    const auto parameter = std::ranges::find(known, key, &Parameter::key);
    if (parameter == known.end()) {
      std::string keys;
      for (const Parameter& each : known) absl::StrAppend(&keys, keys.empty() ? "" : ", ", AbslView(each.key));
      return Invalid("query parameter ", Quoted(key), " is not one of ", keys);
    }
    if (!value.has_value()) return Invalid("query parameter ", Quoted(key), " has no '='");
    if (std::exchange(parameter->seen, true)) return Invalid("query parameter ", Quoted(key), " stands there twice");
    *parameter->value = PercentDecode(*value);
  }
  return absl::OkStatus();
}

absl::Status ParseParameters(std::string_view query, bool is_unix, RedisUrl& url) {
  std::string database = "0";
  std::vector<Parameter> known = {{"client_name", &url.client_name}};
  if (is_unix) known.push_back({"db", &database});
  if (url.kind == RedisUrl::Kind::kSentinel) {
    known.push_back({"sentinel_username", &url.sentinel_username});
    known.push_back({"sentinel_password", &url.sentinel_password});
  }
  if (absl::Status parsed = ParseQuery(query, known); !parsed.ok()) return parsed;
  if (!std::ranges::all_of(url.client_name, absl::ascii_isgraph)) {
    return Invalid("client name ", Quoted(url.client_name), " has other bytes than printable ASCII without blanks");
  }
  return is_unix ? ParseDatabase(database, url) : absl::OkStatus();
}

// What stands before the hosts, with its '@'.
std::string RedactedUserInfo(const RedisUrl& url) {
  if (!url.password.empty()) return internal::Concat(PercentEncode(url.username), ":", kMask, "@");
  return url.username.empty() ? "" : internal::Concat(kMask, "@");
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
  return query;
}

}  // namespace

absl::StatusOr<RedisUrl> ParseRedisUrl(std::string_view text) {
  if (absl::Status checked = CheckBytes(text); !checked.ok()) return checked;
  const size_t separator = text.find("://");
  if (separator == npos) return Invalid("there is no '://' behind a scheme");
  const absl::StatusOr<Scheme> scheme = ParseScheme(text.substr(0, separator));
  if (!scheme.ok()) return scheme.status();
  const absl::StatusOr<Parts> parts = Split(text.substr(separator + 3));
  if (!parts.ok()) return parts.status();

  RedisUrl url = {.kind = scheme->kind};
  const absl::StatusOr<std::string_view> hosts = ParseUserInfo(parts->authority, url);
  if (!hosts.ok()) return hosts.status();
  const bool is_unix = scheme->default_port == 0;
  if (is_unix) {
    // Not shown: in unix://user:secret it is a password.
    if (!hosts->empty()) return Invalid("between unix:// and the path only user:password@ may stand");
    if (absl::Status parsed = ParseSocket(parts->path, url); !parsed.ok()) return parsed;
  } else {
    if (absl::Status parsed = ParseEndpoints(*hosts, scheme->default_port, url); !parsed.ok()) return parsed;
    if (absl::Status parsed = ParsePath(parts->path, url); !parsed.ok()) return parsed;
  }
  if (absl::Status parsed = ParseParameters(parts->query, is_unix, url); !parsed.ok()) return parsed;
  return url;
}

std::string Redacted(const RedisUrl& url) {
  const bool is_unix = !url.endpoints.empty() && !url.endpoints.front().unix_socket.empty();
  const auto scheme = std::ranges::find_if(
      kSchemes, [&](const Scheme& each) { return each.kind == url.kind && is_unix == (each.default_port == 0); });
  std::string text = internal::Concat(scheme->name, "://", RedactedUserInfo(url));
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
