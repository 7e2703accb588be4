#ifndef STOCKADE_BASE_BACKOFF_H_
#define STOCKADE_BASE_BACKOFF_H_

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// Computes the delay before the next attempt: a random part, between half and all, of a span that doubles from `least`
// to `most`. The delay is at least half of the span so that an unreachable server is not contacted without a pause, and
// random so that many clients do not retry at the same time. Not thread-safe.
class Backoff {
 public:
  Backoff(absl::Duration least, absl::Duration most, uint64_t seed) : least_(least), most_(most), random_(seed) {}

  absl::Duration Next() {
    const absl::Duration span = std::min(next_, most_);
    next_ = span * 2;
    return span * std::uniform_real_distribution<double>(0.5, 1.0)(random_);
  }
  void Reset() { next_ = least_; }

 private:
  const absl::Duration least_;
  const absl::Duration most_;
  absl::Duration next_ = least_;
  std::mt19937_64 random_;
};

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_BACKOFF_H_
