#ifndef STOCKADE_LOCKS_LOCAL_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_LOCAL_LOCK_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// A LockService within one process, without a server: for tests, for one machine, and to fall back on. All kinds, with
// leases, tokens and loss as the others have them. Each has locks of its own.
class STOCKADE_EXPORT LocalLockService {
 public:
  // InvalidArgument: bad options.
  static absl::StatusOr<std::unique_ptr<LockService>> Create(LockServiceOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCAL_LOCK_SERVICE_H_
