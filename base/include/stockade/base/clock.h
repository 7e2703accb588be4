#ifndef STOCKADE_BASE_CLOCK_H_
#define STOCKADE_BASE_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"

namespace stockade {

// Tells components the time and lets them wait for it. Components take a clock through their options, so that tests can
// advance a ManualClock instead of sleeping. Thread-safe.
class STOCKADE_EXPORT Clock {
 public:
  virtual ~Clock() = default;

  // The time of a clock that never jumps and that counts time during suspension (CLOCK_BOOTTIME). A call takes some 30
  // ns.
  virtual Instant Now() const = 0;

  // Like Now(), but up to one kernel tick (1 to 10 ms) old and several times cheaper; meant for expiry checks on hot
  // paths. Never runs backwards within one thread.
  virtual Instant CoarseNow() const = 0;

  // Wall time. Only for values that must be wall time: a deadline that survives a restart, a timestamp in a ledger.
  virtual absl::Time WallNow() const = 0;

  // Blocks on `cv`, with `lock` held by the caller, until `cv` is notified or the clock passes `deadline`. Spurious
  // wake-ups are possible, so callers check their predicate in a loop. Returns false if the deadline has passed on
  // return.
  //
  // The system clock sleeps on CLOCK_MONOTONIC, which stops while the machine is suspended, so after a suspension the
  // wait may end late. Now() always decides whether the deadline has passed.
  virtual bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) = 0;

  // The system clock. It is never destroyed.
  static Clock* System();
};

}  // namespace stockade

#endif  // STOCKADE_BASE_CLOCK_H_
