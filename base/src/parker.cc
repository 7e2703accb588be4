#include "stockade/base/parker.h"

#include "stockade/base/futex.h"
#include "stockade/base/sync_point.h"

namespace stockade::base_internal {

bool Parker::Park(Instant until) {
  if (on_futex_) {
    if (TakePermit()) return true;
    const Instant now = until == Instant::InfiniteFuture() ? Instant::InfinitePast() : clock_.Now();
    if (now < until) FutexWait(permit_, 0, SteadyAt(until, now));
    return TakePermit();
  }
  const MutexLock lock(mutex_);
  if (permit_.load(std::memory_order_relaxed) == 0) unparked_.WaitUntil(clock_, mutex_, until);
  return TakePermit();
}

void Parker::Unpark() {
  if (on_futex_) {
    if (permit_.exchange(1, std::memory_order_release) == 0) FutexWake(permit_, 1);
    return;
  }
  {
    const MutexLock lock(mutex_);
    permit_.store(1, std::memory_order_release);
  }
  WakeOnly(unparked_);  // Not notify_all(), which walks the whole of the hash bucket.
}

}  // namespace stockade::base_internal
