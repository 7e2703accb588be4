#ifndef STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// Goes on with locks of this process where `primary` is Unavailable: for work that may rather run twice in a fleet than
// not at all. Such a lease says degraded() and has no fencing token. Metrics count them, and the log says when it
// begins and ends.
//
// A degraded lease excludes degraded leases of this process, and nothing else: not other processes, and not leases of
// the primary. So around the moment at which the primary goes or comes back, two in one process may hold a lock, one
// from each, and an owner that acquires again what it has from the other begins a new hold. A lease stays what it was:
// those of the primary are lost when their time is over unless it comes back, degraded ones stand until released.
//
// Once the primary was Unavailable, calls do not ask it for an engine_timeout and take a local lock at once; after that
// one call in each engine_timeout asks it, and waits as long as the primary's own time-out is, until it answers.
class STOCKADE_EXPORT FallbackLockService {
 public:
  // `options`: of the local locks, of that pause, and of the metrics, whose label `service` should be one of its own.
  // InvalidArgument: bad options, or no primary.
  //
  // The service is thread-safe and blocks as the primary does, and id() is the primary's. Acquire() gives the local
  // lock what is left of the wait, or one try. Inspect() answers for both together, where the primary is Unavailable
  // for the local locks; ForceRelease() is for both, and fails where the primary does.
  static absl::StatusOr<std::unique_ptr<LockService>> Create(std::unique_ptr<LockService> primary,
                                                             const LockServiceOptions& options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_
