#ifndef STOCKADE_REDIS_REDIS_ENDPOINT_H_
#define STOCKADE_REDIS_REDIS_ENDPOINT_H_

#include <cstdint>
#include <string>

#include "stockade/base/export.h"

namespace stockade {

// The address of a server: a TCP port or a UNIX socket. A plain value.
struct STOCKADE_EXPORT RedisEndpoint {
  // A host name or an address; IPv6 without brackets. Empty if unix_socket is set.
  std::string host = {};
  uint16_t port = 6379;

  // A path. If it is set, host and port are ignored.
  std::string unix_socket = {};

  // "host:port", "[::1]:6379" or "unix:/path". For messages and as a key; not meant to be parsed.
  std::string ToString() const;

  friend bool operator==(const RedisEndpoint&, const RedisEndpoint&) = default;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_ENDPOINT_H_
