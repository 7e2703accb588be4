#ifndef STOCKADE_BASE_CLOCK_H_
#define STOCKADE_BASE_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"

namespace stockade {

// Where components read the time and wait for it. Passed in through options, so that tests move time by hand
// (ManualClock) and never sleep. Every call is safe from any thread.
class STOCKADE_EXPORT Clock {
 public:
  virtual ~Clock() = default;

  // A clock that never jumps and counts suspended time (CLOCK_BOOTTIME). Some 30 ns.
  virtual Instant Now() const = 0;

  // As Now(), but up to one tick of the kernel (1 to 10 ms) old and several times cheaper: for expiry on hot paths.
  // Never runs backwards in one thread.
  virtual Instant CoarseNow() const = 0;

  // Wall time, for what a format prescribes it for: a deadline kept across a restart, a timestamp in a ledger.
  virtual absl::Time WallNow() const = 0;

  // Blocks on `cv` with `lock` held, until somebody notifies `cv` or the clock passes `deadline`. May wake for no
  // reason, so callers loop over their predicate. Returns false where the deadline had passed on return.
  //
  // The system's clock sleeps on CLOCK_MONOTONIC, which stands still while the machine is suspended, so after a
  // suspension the wait may end late; whether the deadline has passed is always judged by Now().
  virtual bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) = 0;

  // The system's clock. Never destroyed.
  static Clock* System();
};

}  // namespace stockade

#endif  // STOCKADE_BASE_CLOCK_H_
