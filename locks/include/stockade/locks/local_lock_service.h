#ifndef STOCKADE_LOCKS_LOCAL_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_LOCAL_LOCK_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// A LockService within one process, without a server: for tests, for programs on one machine, and as a fallback.
// Supports all kinds, and leases, tokens and losses work as with other engines. Each service has its own locks.
class STOCKADE_EXPORT LocalLockService {
 public:
  // InvalidArgument: an option is invalid.
  static absl::StatusOr<std::unique_ptr<LockService>> Create(LockServiceOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCAL_LOCK_SERVICE_H_
