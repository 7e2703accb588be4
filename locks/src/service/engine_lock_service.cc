#include "stockade/locks/engine_lock_service.h"

#include <new>
#include <utility>

#include "service_core.h"

namespace stockade {

EngineLockService::EngineLockService(std::shared_ptr<locks_internal::ServiceCore> core) : core_(std::move(core)) {}

EngineLockService::~EngineLockService() {
  if (core_->fork_guard().InForkedChild()) {
    // Its threads are not here to be joined.
    new (std::nothrow) std::shared_ptr<locks_internal::ServiceCore>(core_);
    return;
  }
  core_->Shutdown();
}

absl::StatusOr<std::unique_ptr<LockService>> EngineLockService::Create(std::unique_ptr<LockEngine> engine,
                                                                       LockServiceOptions options) {
  return locks_internal::MakeEngineLockService(std::move(engine), std::move(options), /*degraded=*/false);
}

absl::StatusOr<LockLease> EngineLockService::Acquire(std::string_view name, AcquireOptions options) {
  return core_->Acquire(name, options);
}

void EngineLockService::AcquireAsync(std::string_view name, AcquireOptions options, Callback done) {
  core_->AcquireAsync(name, std::move(options), std::move(done));
}

absl::StatusOr<LockState> EngineLockService::Inspect(std::string_view name, LockOwner owner) {
  return core_->Inspect(name, owner);
}

absl::StatusOr<std::optional<LockKind>> EngineLockService::ForceRelease(std::string_view name) {
  return core_->ForceRelease(name);
}

absl::Status EngineLockService::ReleaseAll(Duration timeout) { return core_->ReleaseAll(timeout); }

std::string_view EngineLockService::id() const { return core_->engine().id(); }

absl::StatusOr<std::unique_ptr<LockService>> locks_internal::MakeEngineLockService(std::unique_ptr<LockEngine> engine,
                                                                                   LockServiceOptions options,
                                                                                   bool degraded) {
  if (engine == nullptr) return absl::InvalidArgumentError("a lock service needs an engine");
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  return std::unique_ptr<LockService>(new EngineLockService(
      std::make_shared<locks_internal::ServiceCore>(std::move(engine), std::move(options), degraded)));
}

}  // namespace stockade
