#ifndef STOCKADE_LOCKS_SRC_SERVICE_ENGINE_STATUS_H_
#define STOCKADE_LOCKS_SRC_SERVICE_ENGINE_STATUS_H_

#include "absl/status/status.h"

namespace stockade::internal {

// Whether a step that an engine failed with this may succeed when it is sent again.
inline bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_ENGINE_STATUS_H_
