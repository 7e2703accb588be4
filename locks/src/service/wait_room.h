#ifndef STOCKADE_LOCKS_SRC_SERVICE_WAIT_ROOM_H_
#define STOCKADE_LOCKS_SRC_SERVICE_WAIT_ROOM_H_

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "stockade/base/instant.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::internal {

class WaitRoom;

// Somebody who waits for a lock that others hold.
class Waiter {
 public:
  virtual ~Waiter() = default;

 private:
  friend class WaitRoom;

  // Something may have changed for it: look at WaitRoom::WorthATry(). Called with the room's mutex held.
  virtual void Wake() = 0;

  // All guarded by the room's mutex.
  bool waiting_ = false;
  HoldKey queue_ = {};
  std::list<Waiter*>::iterator place_ = {};
  bool hinted_ = false;  // A hint that nobody has followed yet.
  Instant retry_at_;
  bool awaits_turn_ = false;  // Its time has come, but it is not the first: whoever leaves before it wakes it.
};

// Who waits in this service for which lock, first come first. Each queue hears hints of the engine while somebody is in
// it, and gives each to one waiter, its first, so that a release is not followed by a herd; readers, who can all enter,
// all get it. Only the first one looks again by the clock.
//
// No hint is lost: it is with a waiter who will try after it came, and who leaves without having done so passes it on.
// A waiter that joins after its try needs no second one: if the lock was released in between, the hint is with who was
// in the queue before it, who enters and will release it, or, a reader, gives the next one a hint; for the first in a
// queue, the engine gives one once hints are heard. tests/models/lock_wait_room.pml is this whole. Waiters
// whose order the engine keeps have a queue each.
//
// Thread-safe. O(1), but for hints to readers.
class WaitRoom {
 public:
  explicit WaitRoom(LockEngine& engine) : engine_(engine) {}
  WaitRoom(const WaitRoom&) = delete;
  WaitRoom& operator=(const WaitRoom&) = delete;

  // Begins to hear hints where it is the first. `retry_at`: when to look again without one.
  void Join(Waiter& waiter, const HoldKey& hold, Instant retry_at);
  void SetRetryAt(Waiter& waiter, Instant retry_at);
  // What a hint that came before this was for is done with.
  void ForgetHint(Waiter& waiter);
  // Whether a try is worth it now. Otherwise it will be woken, or should look again at `look_at` at the latest.
  bool WorthATry(Waiter& waiter, Instant now, Instant& look_at);
  // A try of one that has joined failed: nobody in its queue should count on a hint. It has one itself, to pass on to
  // who joins meanwhile.
  void DoubtHints(const Waiter& waiter);
  // Does nothing for one that has not joined. Waits for a hint of its queue that is being given.
  void Leave(Waiter& waiter, bool entered);

  void WakeAll();
  size_t waiters() const;

 private:
  struct Queue {
    std::list<Waiter*> waiters;        // Never empty while the queue is in queues_.
    std::unique_ptr<LockWatch> watch;  // Null until its first waiter has it.
  };

  HoldKey QueueOf(const HoldKey& hold) const;
  void Hint(const HoldKey& queue);
  static void Give(Waiter& waiter);

  LockEngine& engine_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<HoldKey, std::unique_ptr<Queue>> queues_;  // Guarded by mutex_.
  size_t waiters_ = 0;                                           // Guarded by mutex_.
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_WAIT_ROOM_H_
