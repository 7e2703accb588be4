#include "stockade/locks/redis_lock_service.h"

#include <utility>

#include "redis_lock_engine.h"
#include "stockade/base/strings.h"
#include "stockade/locks/engine_lock_service.h"

namespace stockade {
namespace {

absl::Status Invalid(std::string_view field, std::string_view value, std::string_view rule) {
  return absl::InvalidArgumentError(base_internal::Concat("RedisLockOptions: ", field, " = ", value, " ", rule));
}

}  // namespace

absl::Status RedisLockOptions::Validate() const {
  if (absl::Status valid = service.Validate(); !valid.ok()) return valid;
  if (absl::Status valid = redis.Validate(); !valid.ok()) return valid;
  if (token_retention < absl::Seconds(1)) {
    return Invalid("token_retention", absl::FormatDuration(token_retention), "is less than 1s");
  }
  if (min_replicas < 0 || min_replicas > 100) {
    return Invalid("min_replicas", std::to_string(min_replicas), "is not in 0..100");
  }
  // Zero would make WAIT wait for ever.
  if (replica_timeout < absl::Milliseconds(1) || replica_timeout > absl::Minutes(1)) {
    return Invalid("replica_timeout", absl::FormatDuration(replica_timeout), "is not in 1ms..1m");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LockService>> RedisLockService::Connect(std::string_view url, RedisLockOptions options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  absl::StatusOr<std::unique_ptr<locks_internal::RedisLockEngine>> engine =
      locks_internal::RedisLockEngine::Connect(url, options);
  if (!engine.ok()) return engine.status();
  return EngineLockService::Create(*std::move(engine), std::move(options.service));
}

}  // namespace stockade
