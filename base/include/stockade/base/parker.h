#ifndef STOCKADE_BASE_PARKER_H_
#define STOCKADE_BASE_PARKER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "stockade/base/clock.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"

namespace stockade::internal {

// Where one thread sleeps until another wakes it: Unpark() leaves a permit, at most one, and Park() takes it. So a
// wake-up that comes first is not lost. What was done before Unpark() happens before the Park() that takes its permit
// returns.
//
// On the system's clock it is a futex and nothing else. A condition variable costs two more steps a wake-up on Linux:
// its sleeper takes the mutex back as if others waited for it, so that the unlock looks for them in the futexes' hash
// table, through whoever sleeps in the same bucket: where 10,000 do, that is most of the time.
class STOCKADE_EXPORT Parker {
 public:
  explicit Parker(Clock& clock) : clock_(clock), on_futex_(&clock == Clock::System()) {}
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  // One thread at a time. True: took a permit. False: there was none, and the clock has passed `until`, or has not: it
  // may end early for no reason.
  bool Park(Instant until);

  // Any thread. The parker must be kept until it returns: who was parked may be off at once.
  void Unpark();

 private:
  bool TakePermit() { return permit_.exchange(0, std::memory_order_acquire) == 1; }

  Clock& clock_;
  const bool on_futex_;
  std::atomic<uint32_t> permit_{0};
  // On other clocks. A permit is left with the mutex held: the sleeper does not miss it.
  std::mutex mutex_;
  std::condition_variable unparked_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_PARKER_H_
