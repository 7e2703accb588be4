#include "stockade/locks/lock_service_options.h"

#include "stockade/base/strings.h"
#include "stockade/locks/lock_options.h"

namespace stockade {

absl::Status LockServiceOptions::Validate() const {
  if (name.empty()) return absl::InvalidArgumentError("name is empty");
  if (absl::Status valid = LockOptions{.name = name}.Validate(); !valid.ok()) return valid;
  if (watchdog_lease < absl::Milliseconds(100) || watchdog_lease > absl::Hours(24)) {
    return absl::InvalidArgumentError(
        base_internal::Concat("watchdog_lease must be from 100ms to 24h, not ", absl::FormatDuration(watchdog_lease)));
  }
  if (engine_timeout < absl::Milliseconds(1) || engine_timeout > absl::Hours(1)) {
    return absl::InvalidArgumentError(
        base_internal::Concat("engine_timeout must be from 1ms to 1h, not ", absl::FormatDuration(engine_timeout)));
  }
  if (!(clock_drift >= 0 && clock_drift <= 0.5)) {
    return absl::InvalidArgumentError(base_internal::Concat("clock_drift must be from 0 to 0.5, not ", clock_drift));
  }
  if (clock == nullptr) return absl::InvalidArgumentError("clock is null");
  return absl::OkStatus();
}

}  // namespace stockade
