#include "stockade/locks/redlock_service.h"

#include <utility>

#include "redlock_engine.h"
#include "stockade/base/strings.h"
#include "stockade/locks/engine_lock_service.h"

namespace stockade {

absl::Status RedlockOptions::Validate() const {
  if (absl::Status valid = service.Validate(); !valid.ok()) return valid;
  if (absl::Status valid = redis.Validate(); !valid.ok()) return valid;
  if (node_timeout < absl::Milliseconds(1) || node_timeout > absl::Minutes(1)) {
    return absl::InvalidArgumentError(base_internal::Concat(
        "RedlockOptions: node_timeout = ", absl::FormatDuration(node_timeout), " is not in 1ms..1m"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LockService>> RedlockService::Connect(std::span<const std::string> urls,
                                                                     RedlockOptions options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  absl::StatusOr<std::unique_ptr<locks_internal::RedlockEngine>> engine =
      locks_internal::RedlockEngine::Connect(urls, options);
  if (!engine.ok()) return engine.status();
  return EngineLockService::Create(*std::move(engine), std::move(options.service));
}

}  // namespace stockade
