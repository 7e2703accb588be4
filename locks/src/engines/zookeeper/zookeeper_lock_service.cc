#include "stockade/locks/zookeeper_lock_service.h"

#include <utility>

#include "stockade/base/strings.h"
#include "stockade/locks/engine_lock_service.h"
#include "zookeeper_lock_engine.h"

namespace stockade {
namespace {

absl::Status CheckSpan(std::string_view field, absl::Duration value, absl::Duration least, absl::Duration most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base_internal::Concat("ZooKeeperLockOptions: ", field, " = ", absl::FormatDuration(value), " is not in ",
                            absl::FormatDuration(least), "..", absl::FormatDuration(most)));
}

}  // namespace

absl::Status ZooKeeperLockOptions::Validate() const {
  absl::Status valid = service.Validate();
  if (valid.ok() && session_timeout != absl::ZeroDuration()) {
    valid = CheckSpan("session_timeout", session_timeout, absl::Milliseconds(100), absl::Hours(24));
  }
  if (valid.ok()) valid = CheckSpan("server_tick", server_tick, absl::Milliseconds(1), absl::Hours(1));
  if (valid.ok()) valid = CheckSpan("connect_timeout", connect_timeout, absl::Milliseconds(1), absl::Hours(1));
  return valid;
}

absl::StatusOr<std::unique_ptr<LockService>> ZooKeeperLockService::Connect(std::string_view url,
                                                                           ZooKeeperLockOptions options) {
  absl::StatusOr<std::unique_ptr<locks_internal::ZooKeeperLockEngine>> engine =
      locks_internal::ZooKeeperLockEngine::Connect(url, options);
  if (!engine.ok()) return engine.status();
  return EngineLockService::Create(*std::move(engine), std::move(options.service));
}

}  // namespace stockade
