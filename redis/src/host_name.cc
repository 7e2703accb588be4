#include "host_name.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"

namespace stockade::redis_internal {
namespace {

constexpr auto npos = std::string_view::npos;
constexpr size_t kMaxBytes = 255;

bool IsIpv6(std::string_view host) {
  const size_t zone_at = host.find('%');
  in6_addr parsed;
  return inet_pton(AF_INET6, std::string(host.substr(0, zone_at)).c_str(), &parsed) == 1 && zone_at + 1 != host.size();
}

// In any form that getaddrinfo() takes for one, "0x7f.1" too.
bool IsAddress(std::string_view host) {
  in_addr parsed;
  return host.find_first_of(":%") != npos || inet_aton(std::string(host).c_str(), &parsed) != 0;
}

}  // namespace

bool IsHostName(std::string_view host) {
  return !host.empty() && host.size() <= kMaxBytes && std::ranges::all_of(host, [](char byte) {
    return absl::ascii_isalnum(static_cast<unsigned char>(byte)) || std::string_view("-_.:%").find(byte) != npos;
  });
}

bool IsAllowedHostEntry(std::string_view entry) {
  if (!IsHostName(entry)) return false;
  if (entry.find_first_of(":%") != npos) return IsIpv6(entry);
  const bool is_end = entry.starts_with('.');
  if (is_end) entry.remove_prefix(1);
  if (entry.empty() || entry.starts_with('.') || entry.find("..") != npos) return false;
  // A full name may end with the dot of the root.
  return !is_end || !entry.ends_with('.');
}

bool MatchesAllowedHost(std::string_view host, std::string_view allowed) {
  if (!allowed.starts_with('.')) return host == allowed;
  if (!host.ends_with(allowed) || IsAddress(host)) return false;
  const std::string_view before = host.substr(0, host.size() - allowed.size());
  return !before.empty() && !before.ends_with('.');
}

}  // namespace stockade::redis_internal
