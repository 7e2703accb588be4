#ifndef STOCKADE_LOCKS_SRC_SERVICE_MAKE_SERVICE_H_
#define STOCKADE_LOCKS_SRC_SERVICE_MAKE_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/locks/lock_service.h"

namespace stockade::locks_internal {

// As EngineLockService::Create(). `degraded`: what its leases say, which then have no tokens.
absl::StatusOr<std::unique_ptr<LockService>> MakeEngineLockService(std::unique_ptr<LockEngine> engine,
                                                                   LockServiceOptions options, bool degraded);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_MAKE_SERVICE_H_
