#ifndef STOCKADE_LOCKS_SRC_SERVICE_SHOWN_LOCK_H_
#define STOCKADE_LOCKS_SRC_SERVICE_SHOWN_LOCK_H_

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {

// A lock as messages name it, whatever bytes its name has: lock 'ticket'.
inline std::string ShownLock(std::string_view name) { return Concat("lock '", absl::CHexEscape(AbslView(name)), "'"); }

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_SHOWN_LOCK_H_
