#include "locks/distributed/support/connect_lock_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/locks/redis_lock_service.h"
#include "stockade/locks/redlock_service.h"
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
#include "stockade/locks/zookeeper_lock_service.h"
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
#include "stockade/locks/mysql_lock_service.h"
#endif

namespace stockade::testing {
namespace {

absl::StatusOr<std::unique_ptr<LockService>> Connect(std::string_view url, LockServiceOptions options) {
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
  if (url.starts_with("zookeeper://")) return ZooKeeperLockService::Connect(url, {.service = std::move(options)});
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
  if (url.starts_with("mysql://")) {
    return MySqlLockService::Connect(url, {.service = std::move(options), .create_schema = true});
  }
#endif
  // Connections are lost often in tests, and not for a reason that a pause would mend.
  const RedisOptions redis = {.min_backoff = absl::Milliseconds(1), .max_backoff = absl::Milliseconds(50)};
  if (!url.starts_with(kRedlockScheme)) {
    return RedisLockService::Connect(url, {.service = std::move(options), .redis = redis});
  }
  const std::string servers(url.substr(kRedlockScheme.size()));
  const std::vector<std::string> urls = absl::StrSplit(servers, ',');
  // No server stands still: who answers late runs on a machine that is busy.
  return RedlockService::Connect(urls,
                                 {.service = std::move(options), .redis = redis, .node_timeout = absl::Seconds(2)});
}

}  // namespace

std::unique_ptr<LockService> ConnectLockService(const std::string& url, LockServiceOptions options) {
  // A busy server may answer too late.
  absl::StatusOr<std::unique_ptr<LockService>> service = Connect(url, options);
  const Instant limit = Clock::System()->Now() + absl::Minutes(1);
  while (absl::IsUnavailable(service.status()) && Clock::System()->Now() < limit) service = Connect(url, options);
  if (!service.ok())
    base_internal::Fatal(base_internal::Concat("connecting to ", url, ": ", service.status().ToString()));
  return *std::move(service);
}

}  // namespace stockade::testing
