#include "stockade/cache/internal/flight_waiter.h"

#include "stockade/base/sync_point.h"

namespace stockade::internal {

bool FlightWaiter::Wait(Clock& clock, Instant until) {
  std::unique_lock lock(mutex_);
  while (!woken_ && clock.WaitUntil(changed_, lock, until)) {
  }
  woken_ = false;
  return answered_;
}

void FlightWaiter::Wake(bool answered) {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
    answered_ = answered_ || answered;
  }
  WakeAll(changed_);
}

}  // namespace stockade::internal
