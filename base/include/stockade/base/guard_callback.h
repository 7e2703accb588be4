#ifndef STOCKADE_BASE_GUARD_CALLBACK_H_
#define STOCKADE_BASE_GUARD_CALLBACK_H_

#include <exception>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/floors.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {

// Runs a user's callback that returns a Status or StatusOr. An exception becomes kInternal, "<what> threw: <text>".
template <typename Result, typename Callback>
Result GuardCallback(std::string_view what, Callback&& callback) {
  try {
    return std::forward<Callback>(callback)();
  } catch (const std::exception& error) {
    return absl::InternalError(Concat(what, " threw: ", error.what()));
  } catch (...) {
    return absl::InternalError(Concat(what, " threw something that is not a std::exception"));
  }
}

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_GUARD_CALLBACK_H_
