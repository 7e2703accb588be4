#include "locks/distributed/support/connect_lock_service.h"

#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade::testing {

std::unique_ptr<LockService> ConnectLockService(const std::string& url, LockServiceOptions options) {
  RedisLockOptions redis = {.service = std::move(options)};
  // Connections are lost often in tests, and not for a reason that a pause would mend.
  redis.redis.min_backoff = absl::Milliseconds(1);
  redis.redis.max_backoff = absl::Milliseconds(50);
  absl::StatusOr<std::unique_ptr<LockService>> service = RedisLockService::Connect(url, std::move(redis));
  if (!service.ok()) internal::Fatal(internal::Concat("connecting to ", url, ": ", service.status().ToString()));
  return *std::move(service);
}

}  // namespace stockade::testing
