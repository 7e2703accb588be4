#include "stockade/base/url_parts.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "stockade/base/percent_coding.h"

namespace stockade::base_internal {
namespace {

constexpr auto npos = std::string_view::npos;

bool IsDigits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, absl::ascii_isdigit); }

bool IsIpv6(const std::string& host) {
  const auto [address, zone] = SplitAt(host, '%');
  if (address.find('\0') != npos) return false;  // Where inet_pton() would stop to read.
  in6_addr parsed;
  if (inet_pton(AF_INET6, std::string(address).c_str(), &parsed) != 1) return false;
  return !zone.has_value() || (!zone->empty() && std::ranges::all_of(*zone, absl::ascii_isalnum));
}

bool IsHostByte(char byte) { return absl::ascii_isalnum(byte) || byte == '-' || byte == '.' || byte == '_'; }

absl::StatusOr<uint16_t> ParsePort(std::string_view what, std::string_view text, std::string_view host) {
  const auto port = ParseUrlNumber(text, 1, UINT16_MAX);
  if (port.has_value()) return static_cast<uint16_t>(*port);
  // In redis://user:secret the host was forgotten, and this is the password.
  if (!IsDigits(text)) return InvalidUrl(what, "the port of host ", QuotedUrlValue(host), " is not a number");
  return InvalidUrl(what, "port ", text, " of host ", QuotedUrlValue(host), " is not in 1..", UINT16_MAX);
}

}  // namespace

std::pair<std::string_view, std::optional<std::string_view>> SplitAt(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == npos) return {text, std::nullopt};
  return {text.substr(0, at), text.substr(at + 1)};
}

std::optional<int> ParseUrlNumber(std::string_view text, int min, int max) {
  int number = 0;
  if (!IsDigits(text) || !absl::SimpleAtoi(AbslView(text), &number) || number < min || number > max) {
    return std::nullopt;
  }
  return number;
}

// Positions instead of values: it may be a password.
absl::Status CheckUrlBytes(std::string_view what, std::string_view url, size_t max_bytes) {
  if (url.size() > max_bytes) return InvalidUrl(what, url.size(), " bytes are more than ", max_bytes);
  for (size_t at = 0; at < url.size(); ++at) {
    const auto byte = static_cast<unsigned char>(url[at]);
    if (byte <= ' ' || byte == 0x7f) {
      return InvalidUrl(what, "byte 0x", absl::Hex(byte, absl::kZeroPad2), " at position ", at,
                        " is not allowed; write it as %", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  if (const auto bad = FindBadEscape(url)) {
    return InvalidUrl(what, "the '%' at position ", *bad,
                      " is not followed by two hexadecimal digits; write a percent sign as %25");
  }
  return absl::OkStatus();
}

absl::StatusOr<UrlParts> SplitUrl(std::string_view what, std::string_view rest) {
  const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  const std::string_view authority = rest.substr(0, end);
  const std::string_view tail = rest.substr(end);
  // Most likely a password that has one of those; no part of it may get into a message as a port or a database.
  if (!authority.empty() && tail.find('@') != npos) {
    return InvalidUrl(what,
                      "an '@' follows the first '/', '?' or '#': write it as %40; in user names and passwords, "
                      "write those as %2F, %3F and %23");
  }
  if (tail.find('#') != npos) return InvalidUrl(what, "a '#' must be written as %23");
  const auto [path, query] = SplitAt(tail, '?');
  UrlParts parts = {.hosts = authority, .path = path, .query = query.value_or("")};
  if (const size_t at = authority.rfind('@'); at != npos) {
    parts.user_info = authority.substr(0, at);
    parts.hosts = authority.substr(at + 1);
  }
  return parts;
}

UrlCredentials DecodeUserInfo(std::string_view user_info) {
  const auto [username, password] = SplitAt(user_info, ':');
  return {.username = PercentDecode(username), .password = PercentDecode(password.value_or(""))};
}

absl::StatusOr<UrlEndpoint> ParseUrlEndpoint(std::string_view what, std::string_view text, uint16_t default_port) {
  UrlEndpoint endpoint = {.port = default_port};
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const auto [address, rest] = SplitAt(text.substr(1), ']');
    if (!rest.has_value()) return InvalidUrl(what, "a ']' is missing after ", QuotedUrlValue(text));
    endpoint.host = PercentDecode(address);
    if (!IsIpv6(endpoint.host)) {
      return InvalidUrl(what, "host ", QuotedUrlValue(endpoint.host), " in brackets is not an IPv6 address");
    }
    if (!rest->empty() && !rest->starts_with(':')) {
      return InvalidUrl(what, "only a port may follow ", QuotedUrlValue(endpoint.host));
    }
    if (!rest->empty()) port = rest->substr(1);
  } else {
    std::string_view host;
    std::tie(host, port) = SplitAt(text, ':');
    endpoint.host = PercentDecode(host);
    if (endpoint.host.empty()) return InvalidUrl(what, "a host is empty");
    if (!std::ranges::all_of(endpoint.host, IsHostByte)) {
      return InvalidUrl(what, "host ", QuotedUrlValue(endpoint.host),
                        " has bytes other than letters, digits, '-', '.' and '_'");
    }
    if (port.has_value() && port->find(':') != npos) {
      return InvalidUrl(what, "a host has more than one ':'; write an IPv6 address in brackets");
    }
  }
  if (port.has_value()) {
    const absl::StatusOr<uint16_t> parsed = ParsePort(what, *port, endpoint.host);
    if (!parsed.ok()) return parsed.status();
    endpoint.port = *parsed;
  }
  return endpoint;
}

absl::Status CheckSocketPath(std::string_view what, const std::string& path) {
  constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kMaxPathBytes) {
    return InvalidUrl(what, "the path of a socket has at most ", kMaxPathBytes, " bytes, but ", QuotedUrlValue(path),
                      " has ", path.size());
  }
  if (std::ranges::any_of(path, absl::ascii_iscntrl)) {
    return InvalidUrl(what, "socket ", QuotedUrlValue(path), " has control bytes");
  }
  return absl::OkStatus();
}

absl::Status ParseUrlQuery(std::string_view what, std::string_view query, std::span<UrlParameter> known) {
  if (query.empty()) return absl::OkStatus();
  for (std::optional<std::string_view> rest = query; rest.has_value();) {
    std::string_view piece;
    std::tie(piece, rest) = SplitAt(*rest, '&');
    const auto [raw_key, value] = SplitAt(piece, '=');
    const std::string key = PercentDecode(raw_key);
    const auto parameter = std::ranges::find(known, key, &UrlParameter::key);
    if (parameter == known.end()) {
      std::string keys;
      for (const UrlParameter& each : known) absl::StrAppend(&keys, keys.empty() ? "" : ", ", AbslView(each.key));
      return InvalidUrl(what, "query parameter ", QuotedUrlValue(key), " is not one of ", keys);
    }
    if (!value.has_value()) return InvalidUrl(what, "query parameter ", QuotedUrlValue(key), " has no '='");
    if (std::exchange(parameter->seen, true)) {
      return InvalidUrl(what, "query parameter ", QuotedUrlValue(key), " appears twice");
    }
    *parameter->value = PercentDecode(*value);
  }
  return absl::OkStatus();
}

}  // namespace stockade::base_internal
