#ifndef STOCKADE_CACHE_SRC_FLIGHT_WAITER_H_
#define STOCKADE_CACHE_SRC_FLIGHT_WAITER_H_

#include <atomic>
#include <list>
#include <memory>

#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/parker.h"

namespace stockade::cache_internal {

// One thread that waits for a flight. Each has its own parker, so that thousands that are answered at once do not
// contend for a mutex.
//
// Invariant: it is in its flight's list, or it has left, or the flight is answered and a thread will call Wake(true).
class FlightWaiter {
 public:
  FlightWaiter(Clock& clock, Instant until, bool in_loader) : deadline(until), nested(in_loader), parker_(clock) {}

  // Sleeps until it is woken or the clock passes `until`; wake-ups may be spurious. Returns true if the flight has its
  // answer, which the caller may read without a lock. After false the caller must check the flight again.
  bool Wait(Instant until) {
    parker_.Park(until);
    return answered_.load(std::memory_order_acquire);
  }

  // Not lost if Wait() comes later. The caller must hold a pointer to this object, because the waiter may leave at
  // once.
  void Wake(bool answered) {
    if (answered) answered_.store(true, std::memory_order_release);
    parker_.Unpark();
  }

  const Instant deadline;
  const bool nested;  // Its thread runs a loader, so it must not wait for an executor.
  // Guarded by the mutex of the flight's shard.
  bool seated = false;  // Is in the list, at `place`.
  bool parked = false;  // Is in Wait(), or was woken from it and has not checked the flight yet.
  std::list<std::shared_ptr<FlightWaiter>>::iterator place;

 private:
  Parker parker_;
  std::atomic<bool> answered_{false};
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_FLIGHT_WAITER_H_
