#ifndef STOCKADE_BASE_PARKER_H_
#define STOCKADE_BASE_PARKER_H_

#include <atomic>
#include <cstdint>

#include "stockade/base/clock.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"

namespace stockade::base_internal {

// Lets one thread sleep until another wakes it. Unpark() leaves a permit, at most one, and Park() takes it, so a
// wake-up that comes first is not lost. Everything before Unpark() happens before the return of the Park() that takes
// its permit.
//
// With the system clock this is a plain futex. On Linux a condition variable needs two more steps per wake-up: the
// woken thread locks the mutex as if others waited for it, so its unlock searches the kernel's futex hash table,
// including every sleeper in the same bucket. With 10,000 sleepers this search takes most of the time.
class STOCKADE_EXPORT Parker {
 public:
  explicit Parker(Clock& clock) : clock_(clock), on_futex_(&clock == Clock::System()) {}
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  // Called by one thread at a time. Returns true if it took a permit. Returns false if there was none: the clock has
  // passed `until`, or the wake-up was spurious.
  bool Park(Instant until);

  // Callable from any thread. The parker must exist until this returns, although the parked thread may already run on.
  void Unpark();

 private:
  bool TakePermit() { return permit_.exchange(0, std::memory_order_acquire) == 1; }

  Clock& clock_;
  const bool on_futex_;
  std::atomic<uint32_t> permit_{0};
  // Used with other clocks. A permit is left with the mutex held, so the sleeper does not miss it.
  Mutex mutex_;
  CondVar unparked_;
};

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_PARKER_H_
