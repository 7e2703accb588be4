#include "stockade/cache/load_context.h"

#include <algorithm>

namespace stockade {

absl::Duration LoadContext::time_left() const {
  if (deadline_ == Instant::InfiniteFuture()) return absl::InfiniteDuration();
  return std::max(deadline_ - clock_->Now(), absl::ZeroDuration());
}

}  // namespace stockade
