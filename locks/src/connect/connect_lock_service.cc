#include "stockade/locks/connect_lock_service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../engines/local/local_lock_client.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "stockade/base/strings.h"
#include "stockade/locks/engine_lock_service.h"
#ifdef STOCKADE_HAS_LOCKS_REDIS
#include "stockade/locks/redis_lock_service.h"
#include "stockade/locks/redlock_service.h"
#endif
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
#include "stockade/locks/zookeeper_lock_service.h"
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
#include "stockade/locks/mysql_lock_service.h"
#endif

namespace stockade {
namespace {

using Connected = absl::StatusOr<std::unique_ptr<LockService>>;

constexpr std::string_view kRedlock = "redlock:";

[[maybe_unused]] absl::Status NotBuilt(std::string_view scheme, std::string_view target, std::string_view needs) {
  return absl::UnimplementedError(
      base_internal::Concat("locks at ", scheme, ": this build of Stockade has no stockade::", target,
                            ", which is built if CMake finds ", needs, "; install it and build again"));
}

Connected ConnectLocal(std::string_view scheme, std::string_view url, const LockServiceOptions& options) {
  if (url.size() != scheme.size()) {
    return absl::InvalidArgumentError("the URL local: must have nothing after the colon");
  }
  return EngineLockService::Create(locks_internal::NewSharedLocalClient(options.clock), options);
}

#ifdef STOCKADE_HAS_LOCKS_REDIS
RedisOptions RedisOptionsFor(const LockServiceOptions& options) {
  RedisOptions redis = {.metrics = options.metrics};
  redis.connect_timeout = std::min(redis.connect_timeout, options.engine_timeout);
  return redis;
}
Connected ConnectRedis(std::string_view, std::string_view url, const LockServiceOptions& options) {
  return RedisLockService::Connect(url, {.service = options, .redis = RedisOptionsFor(options)});
}
Connected ConnectRedlock(std::string_view, std::string_view url, const LockServiceOptions& options) {
  const std::vector<std::string> urls = absl::StrSplit(std::string(url.substr(kRedlock.size())), ',');
  return RedlockService::Connect(urls, {.service = options, .redis = RedisOptionsFor(options)});
}
#else
Connected ConnectRedis(std::string_view scheme, std::string_view, const LockServiceOptions&) {
  return NotBuilt(scheme, "locks_redis", "hiredis and OpenSSL (libhiredis-dev, libssl-dev)");
}
Connected ConnectRedlock(std::string_view scheme, std::string_view url, const LockServiceOptions& options) {
  return ConnectRedis(scheme, url, options);
}
#endif

#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
Connected ConnectZooKeeper(std::string_view, std::string_view url, const LockServiceOptions& options) {
  return ZooKeeperLockService::Connect(url, {.service = options, .connect_timeout = options.engine_timeout});
}
#else
Connected ConnectZooKeeper(std::string_view scheme, std::string_view, const LockServiceOptions&) {
  return NotBuilt(scheme, "locks_zookeeper", "ZooKeeper's C client (libzookeeper-mt-dev)");
}
#endif

#ifdef STOCKADE_HAS_LOCKS_MYSQL
Connected ConnectMySql(std::string_view, std::string_view url, const LockServiceOptions& options) {
  // Within what MySqlLockOptions allows.
  const absl::Duration timeout =
      std::clamp<absl::Duration>(options.engine_timeout, absl::Milliseconds(100), absl::Minutes(10));
  return MySqlLockService::Connect(url, {.service = options, .connect_timeout = timeout});
}
#else
Connected ConnectMySql(std::string_view scheme, std::string_view, const LockServiceOptions&) {
  return NotBuilt(scheme, "locks_mysql", "MariaDB Connector/C (libmariadb-dev)");
}
#endif

struct Scheme {
  std::string_view prefix;
  Connected (*connect)(std::string_view scheme, std::string_view url, const LockServiceOptions& options);
};

constexpr Scheme kSchemes[] = {{"local:", ConnectLocal},
                               {kRedlock, ConnectRedlock},
                               {"redis://", ConnectRedis},
                               {"rediss://", ConnectRedis},
                               {"redis+sentinel://", ConnectRedis},
                               {"redis+cluster://", ConnectRedis},
                               {"rediss+sentinel://", ConnectRedis},
                               {"rediss+cluster://", ConnectRedis},
                               {"unix://", ConnectRedis},
                               {"zookeeper://", ConnectZooKeeper},
                               {"mysql://", ConnectMySql},
                               {"mariadb://", ConnectMySql}};

}  // namespace

Connected ConnectLockService(std::string_view url, const LockServiceOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  std::string known;
  for (const Scheme& scheme : kSchemes) {
    if (absl::StartsWithIgnoreCase(base_internal::AbslView(url), base_internal::AbslView(scheme.prefix))) {
      return scheme.connect(scheme.prefix, url, options);
    }
    known += base_internal::Concat(known.empty() ? "" : ", ", scheme.prefix);
  }
  // What comes before the first colon is shown where it looks like a scheme: it is no password then.
  const std::string_view scheme = url.substr(0, url.find("://"));
  const bool shown = scheme.size() < url.size() && scheme.find_first_of("@:/") == std::string_view::npos;
  return absl::InvalidArgumentError(
      base_internal::Concat("the URL of a lock service begins with one of ", known,
                            shown ? base_internal::Concat("; not with ", scheme, "://") : ""));
}

}  // namespace stockade
