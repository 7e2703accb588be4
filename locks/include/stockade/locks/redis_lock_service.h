#ifndef STOCKADE_LOCKS_REDIS_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_REDIS_LOCK_SERVICE_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"
#include "stockade/redis/redis_options.h"

namespace stockade {

// Options of a RedisLockService.
struct STOCKADE_EXPORT RedisLockOptions {
  // Options that all lock services have.
  LockServiceOptions service = {};

  // Options of its connection. callback_executor is not used.
  RedisOptions redis = {};

  // How long the fencing token of a lock is kept after its last acquire. A token is never smaller than the server's
  // time in microseconds, so tokens do not repeat unless that clock is set back by more than this. If infinite, tokens
  // are kept for good; locks that Redisson's RFencedLock shares need this.
  Duration token_retention = absl::Hours(24);

  // The number of replicas that must have an acquire before it succeeds. If they do not confirm it within
  // replica_timeout, it is undone and the result is Unavailable. A lock is still lost if another replica is promoted,
  // which does not have it. All commands of the service to that server wait as well (WAIT). 0: replicas are not
  // checked.
  int min_replicas = 0;
  Duration replica_timeout = absl::Milliseconds(200);

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// Locks in Redis, in the format of Redisson: RLock, RFairLock, RReadWriteLock and RFencedLock of a Java process are the
// same locks as those of the same name here. Works with one server, Sentinels or a cluster, depending on the URL
// (redis_url.h).
//
// docs/DISTRIBUTED_LOCKS.md describes the guarantees, and what a failover can break because Redis replicates
// asynchronously.
class STOCKADE_EXPORT RedisLockService {
 public:
  // Blocks until the first connection is established. Errors as for RedisClient::Connect().
  static absl::StatusOr<std::unique_ptr<LockService>> Connect(std::string_view url, RedisLockOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_REDIS_LOCK_SERVICE_H_
