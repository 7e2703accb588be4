#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_URL_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_URL_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stockade::locks_internal {

// What zookeeper_lock_service.h says of URLs, read. Everything is decoded.
struct ZooKeeperUrl {
  std::vector<std::string> servers = {};  // "host:port", sorted, each once; IPv6 addresses without brackets.
  std::string root = {};                  // "/stockade/locks"
  std::string user = {};                  // Empty: no authentication.
  std::string password = {};
  std::optional<absl::Duration> tick = std::nullopt;
  std::optional<absl::Duration> session_timeout = std::nullopt;
};

// InvalidArgument: what is wrong, never with what may be a password.
absl::StatusOr<ZooKeeperUrl> ParseZooKeeperUrl(std::string_view url);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_URL_H_
