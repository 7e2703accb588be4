#ifndef STOCKADE_LOCKS_SRC_SERVICE_TOKEN_FLOOR_H_
#define STOCKADE_LOCKS_SRC_SERVICE_TOKEN_FLOOR_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "stockade/base/instant.h"

namespace stockade::locks_internal {

// What the next fencing token of an engine has to be at least. Tokens of Redis and MySQL are the server's time in
// microseconds, so the tokens that a service has seen tell it how far the server's clock is ahead of its own. After a
// failover to a server whose clock is behind, and which missed the last acquires, that is what their tokens were
// smaller than. Engines whose tokens are not times do not use it. Thread-safe; one atomic step.
class TokenFloor {
 public:
  // A token, and when it was there: with an earlier time, a late answer would move the floor into the future.
  void Note(int64_t token, Instant answered) {
    if (token <= 0 || token > kLargest) return;  // Not a time, or one that would spoil all that come after it.
    const int64_t ahead = token - answered.nanoseconds() / 1000;
    int64_t most = ahead_.load(std::memory_order_relaxed);
    while (ahead > most && !ahead_.compare_exchange_weak(most, ahead, std::memory_order_relaxed)) {
    }
  }

  // 0: no token has been seen.
  int64_t At(Instant now) const {
    const int64_t ahead = ahead_.load(std::memory_order_relaxed);
    return ahead == kNone ? 0 : std::clamp<int64_t>(now.nanoseconds() / 1000 + ahead, 0, kLargest);
  }

 private:
  static constexpr int64_t kNone = INT64_MIN;
  static constexpr int64_t kLargest = int64_t{1} << 52;  // In the year 2112.

  std::atomic<int64_t> ahead_{kNone};  // Relaxed: the number is all there is.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_TOKEN_FLOOR_H_
