#ifndef STOCKADE_BASE_UNKNOWN_OUTCOME_H_
#define STOCKADE_BASE_UNKNOWN_OUTCOME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// The payload of a failed call that may have changed something all the same, or may do so later.
inline constexpr char kUnknownOutcome[] = "stockade/outcome_unknown";

// A status with that payload and the text that `text` returns. Without memory it has neither: a status without a text
// counts as an unknown outcome, too.
template <typename Text>
absl::Status StatusOfUnknownOutcome(absl::StatusCode code, const Text& text) noexcept {
  try {
    const std::string message = text();
    absl::Status status(code, message);
    status.SetPayload(kUnknownOutcome, absl::Cord("yes"));
    return status;
  } catch (...) {  // std::bad_alloc.
    return absl::Status(code, {});
  }
}

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_UNKNOWN_OUTCOME_H_
