#include "stockade/locks/acquire_options.h"

#include "stockade/base/strings.h"

namespace stockade {

std::string_view LockKindName(LockKind kind) {
  switch (kind) {
    case LockKind::kReentrant: return "reentrant";
    case LockKind::kFair: return "fair";
    case LockKind::kRead: return "read";
    case LockKind::kWrite: return "write";
  }
  return "unknown";
}

absl::Status AcquireOptions::Validate() const {
  if (kind > LockKind::kWrite) {
    return absl::InvalidArgumentError(base_internal::Concat("kind is not a LockKind: ", static_cast<int>(kind)));
  }
  if (lease != absl::ZeroDuration() && (lease < kMinLease || lease > kMaxLease)) {
    return absl::InvalidArgumentError(base_internal::Concat("lease must be 0 or from ", absl::FormatDuration(kMinLease),
                                                            " to ", absl::FormatDuration(kMaxLease), ", not ",
                                                            absl::FormatDuration(lease)));
  }
  if (owner && owner->id() == kNoOwner) return absl::InvalidArgumentError("owner has the id kNoOwner");
  return absl::OkStatus();
}

}  // namespace stockade
