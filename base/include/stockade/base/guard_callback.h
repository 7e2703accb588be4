#ifndef STOCKADE_BASE_GUARD_CALLBACK_H_
#define STOCKADE_BASE_GUARD_CALLBACK_H_

#include <exception>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/floors.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {

// A status with the text that `text` returns. Without memory for the text, the status has none: a code alone needs no
// memory.
template <typename Text>
absl::Status StatusWithText(absl::StatusCode code, const Text& text) noexcept {
  try {
    const std::string message = text();
    return absl::Status(code, message);
  } catch (...) {  // std::bad_alloc.
    return absl::Status(code, {});
  }
}

// Runs a user's callback that returns a Status or StatusOr. An exception becomes kInternal, "<what> threw: <text>".
// Does not throw, also without memory for that text.
template <typename Result, typename Callback>
Result GuardCallback(std::string_view what, Callback&& callback) {
  try {
    return std::forward<Callback>(callback)();
  } catch (const std::exception& error) {
    return StatusWithText(absl::StatusCode::kInternal, [&] { return Concat(what, " threw: ", error.what()); });
  } catch (...) {
    return StatusWithText(absl::StatusCode::kInternal,
                          [&] { return Concat(what, " threw something that is not a std::exception"); });
  }
}

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_GUARD_CALLBACK_H_
