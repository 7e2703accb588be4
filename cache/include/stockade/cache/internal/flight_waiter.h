#ifndef STOCKADE_CACHE_INTERNAL_FLIGHT_WAITER_H_
#define STOCKADE_CACHE_INTERNAL_FLIGHT_WAITER_H_

#include <atomic>
#include <list>
#include <memory>

#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/parker.h"

namespace stockade::internal {

// The place of one thread among those that wait for a flight. Each sleeps on a parker of its own: thousands that are
// answered at once do not queue for a mutex.
//
// Invariant: it is in its flight's list, or has left, or the flight is answered and somebody will call Wake(true).
class FlightWaiter {
 public:
  FlightWaiter(Clock& clock, Instant until, bool in_loader) : deadline(until), nested(in_loader), parker_(clock) {}

  // Until it is woken, or the clock passes `until`, or for no reason. True: the flight has its answer, which the caller
  // may read without a lock. False: look again.
  bool Wait(Instant until) {
    parker_.Park(until);
    return answered_.load(std::memory_order_acquire);
  }

  // Not lost where Wait() comes later. A pointer to this must be kept meanwhile: the waiter may be off at once.
  void Wake(bool answered) {
    if (answered) answered_.store(true, std::memory_order_release);
    parker_.Unpark();
  }

  const Instant deadline;
  const bool nested;  // Its thread runs a loader: it must not wait for an executor.
  // Guarded by the mutex of the flight's shard.
  bool seated = false;  // Is in the list, at `place`.
  bool parked = false;  // Is in Wait(), or was woken from it and has not looked yet.
  std::list<std::shared_ptr<FlightWaiter>>::iterator place;

 private:
  Parker parker_;
  std::atomic<bool> answered_{false};
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_FLIGHT_WAITER_H_
