#ifndef STOCKADE_REDIS_REDIS_URL_H_
#define STOCKADE_REDIS_REDIS_URL_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/redis/redis_endpoint.h"
#include "stockade/redis/redis_tls_options.h"

namespace stockade {

// The parts of a Redis URL. A plain value; everything in it is decoded.
struct RedisUrl {
  // The kind of service at the endpoints.
  enum class Kind {
    kStandalone,  // One server.
    kSentinel,    // Sentinels, which name the master.
    kCluster,     // Nodes of a Redis Cluster, which name the others.
  };

  // The kind of service at `endpoints`.
  Kind kind = Kind::kStandalone;

  // The server, the Sentinels, or the cluster nodes to contact first. 1 to kMaxRedisUrlEndpoints; one for kStandalone.
  std::vector<RedisEndpoint> endpoints = {};

  // Credentials for AUTH at the data servers. Sentinels and cluster nodes may name further data servers;
  // RedisOptions::allowed_hosts restricts them. If both are empty, there is no AUTH, and the commands run as the user
  // "default". A password without a user name is that user's. A user name without a password is sent with an empty one.
  std::string username = {};
  std::string password = {};

  // The database for SELECT, 0 to INT_MAX; the server knows how many it has. 0 for kCluster.
  int database = 0;

  // Set for a URL with TLS. The fields are those of the URL's parameters; those that it does not have are taken from
  // RedisOptions::tls.
  std::optional<RedisTlsOptions> tls = std::nullopt;

  // The name for CLIENT SETNAME: printable ASCII without blanks. If empty, it is the program's name and process id,
  // such as shop-4711, and a server that refuses that one is used without.
  std::string client_name = {};

  // For kSentinel: the name of the master, and the credentials for AUTH at the Sentinels themselves, which do not get
  // username and password. They are used in the same way.
  std::string master_name = {};
  std::string sentinel_username = {};
  std::string sentinel_password = {};

  friend bool operator==(const RedisUrl&, const RedisUrl&) = default;
};

// The longest URL, in bytes, and the largest number of endpoints.
inline constexpr size_t kMaxRedisUrlBytes = 4096;
inline constexpr size_t kMaxRedisUrlEndpoints = 64;

// Parses a URL of one of these forms:
//   redis://[user[:password]@]host[:port][/database][?client_name=..]
//   unix://[user[:password]@]/path/to.sock[?db=..&client_name=..]
//   redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/master-name[/database]
//       [?client_name=..&sentinel_username=..&sentinel_password=..]
//   redis+cluster://[user[:password]@]host[:port][,host[:port]...][?client_name=..]
// and rediss://, rediss+sentinel:// and rediss+cluster://, which are the same with TLS, for all connections, those to
// Sentinels too. They also have the parameters tls_ca, tls_cert and tls_key (files), tls_server_name, and tls_verify
// (full, chain or none); redis_tls_options.h says what they mean.
// The default port is 6379, for Sentinels 26379. IPv6 addresses are in brackets, with a zone as in [fe80::1%25eth0].
// Any byte may be encoded as %XX. Control characters, blanks and '#' must be encoded, and in user names and passwords
// also '/' and '?'. A '+' stands for itself.
//
// redis://:secret@host has only a password. In redis://name@host the name is a user name, as in redis-py and ioredis;
// redis-cli and Lettuce treat it as a password. The server gets it as the name of a user with an empty password, and
// refuses that (Unauthenticated) unless the user has none.
//
// InvalidArgument: the message says what is wrong. It quotes the value only if that cannot be part of a password.
// Thread-safe; does not connect to anything. O(length).
STOCKADE_EXPORT absl::StatusOr<RedisUrl> ParseRedisUrl(std::string_view url);

// `url` for logs. A password is shown as ***, whatever its length, and so is a user name without a password, which is
// often meant as a password. ParseRedisUrl() accepts everything else, except that encoding as %XX may make the result
// longer than kMaxRedisUrlBytes.
STOCKADE_EXPORT std::string Redacted(const RedisUrl& url);

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_URL_H_
