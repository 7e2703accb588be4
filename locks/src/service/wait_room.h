#ifndef STOCKADE_LOCKS_SRC_SERVICE_WAIT_ROOM_H_
#define STOCKADE_LOCKS_SRC_SERVICE_WAIT_ROOM_H_

#include <cstddef>
#include <list>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::locks_internal {

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
  bool hinted_ = false;  // A hint that it has not followed yet.
  Instant retry_at_;
  bool awaits_turn_ = false;  // It is due, but not the first: the waiter that leaves from before it wakes it.
};

// The waiters of this service, in a queue per lock, in order of arrival. A queue listens to the engine's hints while it
// has waiters. It gives each hint to one waiter, its first, so that a release does not wake a herd. Readers, which can
// all enter, all get it. Only the first waiter also retries by the clock.
//
// No hint is lost: it is with a waiter that will try after the hint came, and a waiter that leaves without trying
// passes it on. A waiter that joins after its try needs no second try. If the lock was released in between, the hint is
// with a waiter that was in the queue before it. That one enters and will release the lock, or, if it is a reader,
// gives the next one a hint. For the first waiter of a queue, the engine gives a hint once the queue listens.
// tests/models/lock_wait_room.pml models all of this. If the engine keeps the order of the waiters, each of them has a
// queue of its own.
//
// Thread-safe. O(1), except for hints to readers.
class WaitRoom {
 public:
  explicit WaitRoom(LockEngine& engine) : engine_(engine) {}
  WaitRoom(const WaitRoom&) = delete;
  WaitRoom& operator=(const WaitRoom&) = delete;

  // Starts to listen for hints if this waiter is the first. `retry_at`: when to retry without a hint.
  void Join(Waiter& waiter, const HoldKey& hold, Instant retry_at);
  void SetRetryAt(Waiter& waiter, Instant retry_at);
  // Discards a hint that came before now: the caller is about to try.
  void ForgetHint(Waiter& waiter);
  // Whether a try is worthwhile now. If not, the waiter will be woken, or should call this again by `look_at`.
  bool WorthATry(Waiter& waiter, Instant now, Instant& look_at);
  // A try of a waiter that has joined failed, so no waiter of its queue should rely on another one's try. Gives each of
  // them a hint; the waiter itself passes its hint on to waiters that join meanwhile.
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
  void Give(Waiter& waiter) STOCKADE_REQUIRES(mutex_);

  LockEngine& engine_;
  mutable Mutex mutex_;
  absl::flat_hash_map<HoldKey, std::unique_ptr<Queue>> queues_ STOCKADE_GUARDED_BY(mutex_);
  size_t waiters_ STOCKADE_GUARDED_BY(mutex_) = 0;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_WAIT_ROOM_H_
