#ifndef STOCKADE_LOCKS_REDIS_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_REDIS_LOCK_SERVICE_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"
#include "stockade/redis/redis_options.h"

namespace stockade {

// What a RedisLockService is connected with.
struct STOCKADE_EXPORT RedisLockOptions {
  // What every lock service has.
  LockServiceOptions service = {};

  // Of its connection. Its callback_executor is not used.
  RedisOptions redis = {};

  // How long a lock's fencing token is remembered after its last acquire. A token is never smaller than the server's
  // time in microseconds, so a forgotten one does not come back unless that clock is set back by more than this.
  // Infinite: for ever, which a lock needs that Redisson's RFencedLock shares.
  absl::Duration token_retention = absl::Hours(24);

  // An acquire succeeds only once so many replicas have it, and is taken back with Unavailable where they do not say so
  // within replica_timeout. A lock is still lost where a replica is promoted that had not; and all commands of the
  // service to that server wait with it (WAIT). 0: not asked.
  int min_replicas = 0;
  absl::Duration replica_timeout = absl::Milliseconds(200);

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// Locks kept in Redis as Redisson keeps them: RLock, RFairLock, RReadWriteLock and RFencedLock of a Java process with
// the same name are the same lock. One server, Sentinels or a cluster, as the URL says (redis_url.h).
//
// docs/DISTRIBUTED_LOCKS.md says what it promises, and what a failover of Redis's asynchronous replication can break.
class STOCKADE_EXPORT RedisLockService {
 public:
  // Blocks until the first connection is there; errors as RedisClient::Connect().
  static absl::StatusOr<std::unique_ptr<LockService>> Connect(std::string_view url, RedisLockOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_REDIS_LOCK_SERVICE_H_
