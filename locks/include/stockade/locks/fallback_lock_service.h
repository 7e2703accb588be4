#ifndef STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// Goes on with locks of this process where `primary` is Unavailable: for work that may rather run twice in a fleet than
// not at all. Such a lease says degraded(), has no fencing token, and excludes only holders of this process that are
// degraded too. Metrics count them.
class FallbackLockService {
 public:
  // `options`: of the local locks, whose name and metrics also count what was degraded. InvalidArgument: bad options,
  // or no primary.
  static absl::StatusOr<std::unique_ptr<LockService>> Create(std::unique_ptr<LockService> primary,
                                                             LockServiceOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_FALLBACK_LOCK_SERVICE_H_
