#ifndef STOCKADE_LOCKS_REENTRANT_MUTEX_H_
#define STOCKADE_LOCKS_REENTRANT_MUTEX_H_

#include <chrono>
#include <cstdint>
#include <string_view>

#include "stockade/base/thread_annotations.h"
#include "stockade/locks/internal/lock_core.h"
#include "stockade/locks/lock_options.h"

namespace stockade {

// A mutex that the thread which holds it may lock again; it is free after as many unlocks as locks. Meets
// std::TimedLockable, so std::lock_guard, std::unique_lock and std::scoped_lock work. ReentrantMutexGuard below is a
// lock_guard that clang's analysis supports.
//
//   stockade::ReentrantMutex mutex({.name = "orders"});
//   std::lock_guard lock(mutex);
//
// Thread-safe; the thread that locked must unlock. lock() and the timed calls block. Re-entry and the unlock of an
// inner hold use no atomic read-modify-write. After a long run of locks by one thread, its outermost locks and unlocks
// use none either, until another thread locks the mutex. Memory order: unlock() happens before the next lock(). No
// waiter starves: see LockOptions::fifo. Memory: 192 bytes and the name; 1.25 KiB per thread.
//
// Aborts, with the lock's name, if a thread unlocks a mutex that it does not hold, if the mutex is destroyed while it
// is held or waited for, if a thread ends while it holds the mutex, after more than 2^24 nested holds, and on any call
// in a forked child, where the destructor does nothing. Destructors of static and thread_local objects may use it.
class STOCKADE_CAPABILITY("mutex") ReentrantMutex {
 public:
  ReentrantMutex() : ReentrantMutex(LockOptions{}) {}
  // Aborts with the message of options.Validate() if an option is invalid.
  explicit ReentrantMutex(const LockOptions& options) : identity_("ReentrantMutex", options), core_(identity_) {}

  ReentrantMutex(const ReentrantMutex&) = delete;
  ReentrantMutex& operator=(const ReentrantMutex&) = delete;

  // Blocks until the mutex is held.
  void lock() STOCKADE_ACQUIRE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Lock(); }
  // Does not wait for a holder, but may take some 20 us to find out whether there is one (docs/LOCKS.md). With the FIFO
  // option it returns false if there are waiters, even if the mutex is free.
  bool try_lock() STOCKADE_TRY_ACQUIRE(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS { return core_.TryLock(); }

  // Wait on the steady clock, and return false no earlier than after the given time. A deadline on another clock, such
  // as the system clock, is converted to a time span when the call begins, and again when that span has passed. If that
  // clock is set back by an hour meanwhile, the call waits an hour longer; if it is set forward, the call does not
  // return earlier.
  template <typename Rep, typename Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& span)
      STOCKADE_TRY_ACQUIRE(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return core_.TryLockUntil(locks_internal::DeadlineAfter(locks_internal::SaturatingNanoseconds(span)));
  }
  template <typename Clock, typename Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline)
      STOCKADE_TRY_ACQUIRE(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return locks_internal::TryUntilOnClock(
        deadline, [this](locks_internal::SteadyDeadline at) { return core_.TryLockUntil(at); });
  }

  // Releases one hold; after the last one, other threads can lock the mutex. Does not block.
  void unlock() STOCKADE_RELEASE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Unlock(); }

  // The number of holds of the calling thread.
  uint32_t hold_count() const { return core_.write_holds(); }
  bool held_by_current_thread() const { return core_.write_holds() > 0; }

  // The name in the options; empty for an unnamed lock. Valid as long as the lock.
  std::string_view name() const { return identity_.name(); }
  // The number of threads that wait. May be outdated when it is returned.
  uint64_t waiters() const { return core_.waiters(); }

 private:
  friend class ReentrantMutexGuard;

  locks_internal::LockIdentity identity_;
  locks_internal::LockCore core_;
};

// Holds a ReentrantMutex for a scope.
class STOCKADE_SCOPED_CAPABILITY ReentrantMutexGuard {
 public:
  // Blocks until `mutex` is held.
  explicit ReentrantMutexGuard(ReentrantMutex& mutex) STOCKADE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // Does nothing in a forked child.
  ~ReentrantMutexGuard() STOCKADE_RELEASE() {
    if (!mutex_.identity_.InForkedChild()) mutex_.unlock();
  }

  ReentrantMutexGuard(const ReentrantMutexGuard&) = delete;
  ReentrantMutexGuard& operator=(const ReentrantMutexGuard&) = delete;

 private:
  ReentrantMutex& mutex_;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_REENTRANT_MUTEX_H_
