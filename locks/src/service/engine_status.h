#ifndef STOCKADE_LOCKS_SRC_SERVICE_ENGINE_STATUS_H_
#define STOCKADE_LOCKS_SRC_SERVICE_ENGINE_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "shown_lock.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {

// Whether a step that an engine failed with this may succeed when it is sent again.
inline bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

// An engine's error with a code that lock_service.h and lock_lease.h list.
inline absl::Status Listed(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted: return absl::UnavailableError(error.message());
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange: return absl::InternalError(error.message());
    default: return error;
  }
}

// Of a call that a service which is being destroyed does not take.
inline absl::Status Ending() { return absl::CancelledError("the lock service is being destroyed"); }

// Of an acquire whose stop token was used.
inline absl::Status CallerGaveUp(std::string_view lock) {
  return absl::CancelledError(Concat(ShownLock(lock), ": its caller has given up"));
}

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_ENGINE_STATUS_H_
