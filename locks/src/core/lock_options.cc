#include "stockade/locks/lock_options.h"

#include <algorithm>
#include <cstddef>

#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

constexpr size_t kMaxNameBytes = 128;

bool IsPrintableAscii(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

absl::Status LockOptions::Validate() const {
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(base_internal::Concat("LockOptions.name has ", name.size(),
                                                            " characters; at most ", kMaxNameBytes, " are allowed"));
  }
  if (!std::all_of(name.begin(), name.end(), IsPrintableAscii)) {
    return absl::InvalidArgumentError(base_internal::Concat("LockOptions.name '", base_internal::Printable(name),
                                                            "' has characters that are not printable ASCII"));
  }
  return absl::OkStatus();
}

}  // namespace stockade
