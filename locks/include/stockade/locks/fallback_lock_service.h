#ifndef STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// Uses locks of this process while `primary` is Unavailable: for work that may rather run twice in a fleet than not at
// all. Such a lease has degraded() set and no fencing token. Metrics count these leases, and the log shows when
// degraded operation begins and ends.
//
// A degraded lease excludes only degraded leases of this process: neither other processes nor leases of the primary.
// Around the moment at which the primary becomes unavailable or returns, two owners in one process may therefore hold a
// lock, one from each service, and an owner that reacquires a lock from the other service begins a new hold. A lease
// keeps its kind: leases of the primary are lost when they end unless the primary returns, and degraded leases stay
// valid until released.
//
// After the primary was Unavailable, calls take a local lock at once, without contacting the primary, for one
// engine_timeout. Then one call per engine_timeout contacts the primary, and waits up to the primary's own time-out,
// until the primary answers.
class STOCKADE_EXPORT FallbackLockService {
 public:
  // `options` apply to the local locks, to that pause, and to the metrics, whose label `service` should be unique.
  // InvalidArgument: an option is invalid, or there is no primary.
  //
  // The service is thread-safe, blocks like the primary, and has the primary's id(). Acquire() gives the local lock the
  // rest of the wait, or one try. Inspect() combines both services; if the primary is Unavailable, it describes the
  // local locks only. ForceRelease() applies to both and fails if the primary fails.
  static absl::StatusOr<std::unique_ptr<LockService>> Create(std::unique_ptr<LockService> primary,
                                                             const LockServiceOptions& options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_
