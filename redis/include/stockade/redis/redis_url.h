#ifndef STOCKADE_REDIS_REDIS_URL_H_
#define STOCKADE_REDIS_REDIS_URL_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/redis/redis_endpoint.h"

namespace stockade {

// What a URL says of the servers to connect to. A plain value; everything in it is decoded.
struct RedisUrl {
  // What listens there.
  enum class Kind {
    kStandalone,  // One server.
    kSentinel,    // Sentinels, which know where the master is.
    kCluster,     // Nodes of a Redis Cluster, which know the others.
  };

  // What listens at `endpoints`.
  Kind kind = Kind::kStandalone;

  // The server; the Sentinels; the nodes to ask first. 1 to kMaxRedisUrlEndpoints, one for kStandalone.
  std::vector<RedisEndpoint> endpoints = {};

  // For AUTH at the servers that have the data, which Sentinels and nodes of a cluster name:
  // RedisOptions::allowed_hosts limits to which. Both empty: no AUTH. Only the password: that of the user "default".
  std::string username = {};
  std::string password = {};

  // For SELECT, 0 to INT_MAX; how many there are, the server knows. 0 for kCluster.
  int database = 0;

  // For CLIENT SETNAME: printable ASCII without blanks. Empty: none.
  std::string client_name = {};

  // For kSentinel: the name that the Sentinels know the master by, and for AUTH at the Sentinels themselves, to which
  // username and password are not sent.
  std::string master_name = {};
  std::string sentinel_username = {};
  std::string sentinel_password = {};

  friend bool operator==(const RedisUrl&, const RedisUrl&) = default;
};

// The longest URL, and the most endpoints in one, that are taken.
inline constexpr size_t kMaxRedisUrlBytes = 4096;
inline constexpr size_t kMaxRedisUrlEndpoints = 64;

// Reads one of
//   redis://[user[:password]@]host[:port][/database][?client_name=..]
//   unix://[user[:password]@]/path/to.sock[?db=..&client_name=..]
//   redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/master-name[/database]
//       [?client_name=..&sentinel_username=..&sentinel_password=..]
//   redis+cluster://[user[:password]@]host[:port][,host[:port]...][?client_name=..]
// The port is 6379 unless given, of a Sentinel 26379. IPv6 addresses stand in brackets, with a zone as in
// [fe80::1%25eth0]. Any byte may be written as %XX, and a control character, a blank, a '#', and in user names and
// passwords a '/' or '?', must be. A '+' is a plus.
//
// redis://:secret@host gives a password alone. In redis://name@host the name is a user's, as for redis-py and ioredis;
// redis-cli and Lettuce take it for a password.
//
//   InvalidArgument: what is wrong and, where it cannot be a piece of a password, the value. Never a password.
//   Unimplemented: rediss:// and its likes, because this build has no TLS.
// Thread-safe; connects to nothing. O(length).
STOCKADE_EXPORT absl::StatusOr<RedisUrl> ParseRedisUrl(std::string_view url);

// `url` for logs: a password is shown as ***, whatever its length, and so is a user name without a password, which many
// mean for one. Everything else is as ParseRedisUrl() takes it, except that what gets longer by %XX can become longer
// than that takes.
STOCKADE_EXPORT std::string Redacted(const RedisUrl& url);

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_URL_H_
