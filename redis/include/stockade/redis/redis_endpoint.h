#ifndef STOCKADE_REDIS_REDIS_ENDPOINT_H_
#define STOCKADE_REDIS_REDIS_ENDPOINT_H_

#include <cstdint>
#include <string>

#include "stockade/base/export.h"

namespace stockade {

// Where a server listens: a TCP port, or a UNIX socket. A plain value.
struct STOCKADE_EXPORT RedisEndpoint {
  // A name or an address, IPv6 without brackets. Empty where unix_socket is set.
  std::string host = {};
  uint16_t port = 6379;

  // A path. Where it is set, host and port mean nothing.
  std::string unix_socket = {};

  // "host:port", "[::1]:6379", "unix:/path": for messages and as a key, and not to be parsed.
  std::string ToString() const;

  friend bool operator==(const RedisEndpoint&, const RedisEndpoint&) = default;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_ENDPOINT_H_
