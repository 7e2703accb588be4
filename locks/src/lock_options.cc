#include "stockade/locks/lock_options.h"

#include <algorithm>
#include <cstddef>

#include "stockade/base/strings.h"

namespace stockade {
namespace {

constexpr size_t kMaxNameBytes = 128;

bool IsPrintable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

absl::Status LockOptions::Validate() const {
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        internal::Concat("LockOptions.name has ", name.size(), " characters, ", kMaxNameBytes, " are allowed"));
  }
  if (!std::all_of(name.begin(), name.end(), IsPrintable)) {
    return absl::InvalidArgumentError("LockOptions.name has characters that are not printable ASCII");
  }
  return absl::OkStatus();
}

}  // namespace stockade
