#ifndef STOCKADE_LOCKS_REDLOCK_SERVICE_H_
#define STOCKADE_LOCKS_REDLOCK_SERVICE_H_

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"
#include "stockade/redis/redis_options.h"

namespace stockade {

// Options of a RedlockService.
struct STOCKADE_EXPORT RedlockOptions {
  // Options that all lock services have.
  LockServiceOptions service = {};

  // Options of each connection. callback_executor is not used.
  RedisOptions redis = {};

  // How long a step waits for the answer of one server before it continues without it. Should be much shorter than the
  // leases.
  Duration node_timeout = absl::Milliseconds(500);

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// The RedLock algorithm of the Redis documentation. A lock is held while more than half of N independent servers have
// it, for its lease less the time that the acquire took and the clock drift. Works while more than half of the servers
// answer, and does not wait for a server that did not answer the last time. Supports kReentrant only, without fencing
// tokens.
//
// If a server restarts without its data within a lease, it can grant a lock again, and two owners may hold it. To
// prevent this, let servers write to disk before they answer (appendfsync always), or keep a crashed server offline for
// the longest lease.
class STOCKADE_EXPORT RedlockService {
 public:
  // Takes one URL per server: an odd number of different URLs, at least 3; InvalidArgument otherwise. Blocks until more
  // than half of the servers answer, at most for redis.connect_timeout; Unavailable if they do not. The others are used
  // as soon as they answer.
  static absl::StatusOr<std::unique_ptr<LockService>> Connect(std::span<const std::string> urls,
                                                              RedlockOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_REDLOCK_SERVICE_H_
