#ifndef STOCKADE_CACHE_INTERNAL_FLIGHT_WAITER_H_
#define STOCKADE_CACHE_INTERNAL_FLIGHT_WAITER_H_

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>

#include "stockade/base/clock.h"
#include "stockade/base/instant.h"

namespace stockade::internal {

// The place of one thread among those that wait for a flight. Each waits on a mutex of its own: thousands that are
// answered at once do not queue for one.
//
// Invariant: it is in its flight's list, or has left, or the flight is answered and somebody will call Wake(true).
class FlightWaiter {
 public:
  FlightWaiter(Instant until, bool in_loader) : deadline(until), nested(in_loader) {}

  // Until it is woken, or the clock passes `until`. True: the flight has its answer, which the caller may read without
  // a lock. False: look again.
  bool Wait(Clock& clock, Instant until);

  // Not lost where Wait() comes later. A pointer to this must be kept meanwhile: the waiter may be off at once.
  void Wake(bool answered);

  const Instant deadline;
  const bool nested;  // Its thread runs a loader: it must not wait for an executor.
  // Guarded by the mutex of the flight's shard.
  bool seated = false;  // Is in the list, at `place`.
  bool parked = false;  // Is in Wait(), or was woken from it and has not looked yet.
  std::list<std::shared_ptr<FlightWaiter>>::iterator place;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;     // Guarded by mutex_.
  bool answered_ = false;  // Guarded by mutex_.
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_FLIGHT_WAITER_H_
