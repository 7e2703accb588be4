#ifndef STOCKADE_LOCKS_REDLOCK_SERVICE_H_
#define STOCKADE_LOCKS_REDLOCK_SERVICE_H_

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"
#include "stockade/redis/redis_options.h"

namespace stockade {

// What a RedlockService is connected with.
struct STOCKADE_EXPORT RedlockOptions {
  // What every lock service has.
  LockServiceOptions service = {};

  // Of each connection. Its callback_executor is not used.
  RedisOptions redis = {};

  // How long one server may take to answer a step before the step goes on without it: much shorter than the leases.
  absl::Duration node_timeout = absl::Milliseconds(500);

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// The RedLock algorithm of the Redis documentation: a lock is held while more than half of N independent servers say
// so, for its lease less the time that it took and the drift of clocks. It works while more than half answer, and does
// not wait for a server that failed to answer the last time. kReentrant only, without fencing tokens.
//
// A server that comes back without its data within a lease can give away what it had given before, and then two may
// hold a lock: let servers write everything to disk before they answer (appendfsync always), or keep one away for the
// longest lease after a crash.
class STOCKADE_EXPORT RedlockService {
 public:
  // One URL a server, an odd number, 3 at least, each another one: InvalidArgument otherwise. Blocks until more than
  // half answer, at most redis.connect_timeout; Unavailable where they do not. The others are used once they answer.
  static absl::StatusOr<std::unique_ptr<LockService>> Connect(std::span<const std::string> urls,
                                                              RedlockOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_REDLOCK_SERVICE_H_
