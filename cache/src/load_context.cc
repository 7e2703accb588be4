#include "stockade/cache/load_context.h"

#include <algorithm>

#include "absl/strings/cord.h"

namespace stockade {
namespace {

constexpr char kNotModified[] = "stockade.cache/not_modified";

}  // namespace

absl::Duration LoadTerms::time_left() const {
  if (deadline_ == Instant::InfiniteFuture()) return absl::InfiniteDuration();
  return std::max(deadline_ - clock_->Now(), absl::ZeroDuration());
}

// A payload distinguishes it from an AbortedError of the user's.
absl::Status LoadTerms::NotModified() {
  absl::Status status = absl::AbortedError("not modified");
  status.SetPayload(kNotModified, absl::Cord());
  return status;
}

bool cache_internal::IsMarkedNotModified(const absl::Status& status) {
  return status.GetPayload(kNotModified).has_value();
}

}  // namespace stockade
