#include "stockade/locks/local_lock_service.h"

#include <utility>

#include "local_lock_engine.h"
#include "stockade/locks/engine_lock_service.h"

namespace stockade {

absl::StatusOr<std::unique_ptr<LockService>> LocalLockService::Create(LockServiceOptions options) {
  auto engine = std::make_unique<locks_internal::LocalLockEngine>(options.clock);
  return EngineLockService::Create(std::move(engine), std::move(options));
}

}  // namespace stockade
