#ifndef STOCKADE_LOCKS_REENTRANT_MUTEX_H_
#define STOCKADE_LOCKS_REENTRANT_MUTEX_H_

#include <chrono>
#include <cstdint>
#include <string_view>

#include "stockade/locks/lock_core.h"
#include "stockade/locks/lock_options.h"
#include "stockade/locks/thread_annotations.h"

namespace stockade {

// A mutex that the thread which holds it may take again; others get in after as many unlocks as locks. Meets
// std::TimedLockable, so std::lock_guard, std::unique_lock and std::scoped_lock work; ReentrantMutexGuard below is a
// lock_guard that clang's analysis understands.
//
//   stockade::ReentrantMutex mutex({.name = "orders"});
//   std::lock_guard lock(mutex);
//
// Threads: every call is safe from any thread; the thread that locked unlocks. lock() and the timed calls block.
// Re-entry and the unlock of an inner hold do no atomic read-modify-write; nor, after a long run of one thread's locks
// with nobody else in between, do the outermost ones, until another thread comes. Ordering: unlock() happens before the
// lock() that follows it. No waiter starves: see LockOptions::fifo. Memory: 192 bytes and the name; 1.25 KiB a thread.
//
// Aborts with the lock's name: unlock() by a thread that does not hold it; destruction while it is held or waited for;
// a thread that ends while it holds it; more than 2^24 nested holds; any call in a forked child, where the destructor
// does nothing. It may be used by destructors of statics and thread_locals.
class STOCKADE_CAPABILITY("mutex") ReentrantMutex {
 public:
  ReentrantMutex() : ReentrantMutex(LockOptions{}) {}
  // Aborts with the text of options.Validate().
  explicit ReentrantMutex(const LockOptions& options) : identity_("ReentrantMutex", options), core_(identity_) {}

  ReentrantMutex(const ReentrantMutex&) = delete;
  ReentrantMutex& operator=(const ReentrantMutex&) = delete;

  // Blocks until it is held.
  void lock() STOCKADE_ACQUIRE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Lock(); }
  // Does not wait for any holder, though it may take some 20 us to find out whether there is one (docs/LOCKS.md). With
  // the FIFO option it is false where somebody waits, even if the lock is free.
  bool try_lock() STOCKADE_TRY_ACQUIRE(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS { return core_.TryLock(); }

  // Wait on the steady clock: false no earlier than the span says. A deadline on another clock is turned into a span.
  template <typename Rep, typename Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& span)
      STOCKADE_TRY_ACQUIRE(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return core_.TryLockUntil(internal::DeadlineAfter(internal::SaturatingNanoseconds(span)));
  }
  template <typename Clock, typename Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline)
      STOCKADE_TRY_ACQUIRE(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return internal::TryUntilOnClock(deadline, [this](internal::SteadyDeadline at) { return core_.TryLockUntil(at); });
  }

  // Gives one hold up; the last one lets others in. Does not block.
  void unlock() STOCKADE_RELEASE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Unlock(); }

  // How often the calling thread holds it.
  uint32_t hold_count() const { return core_.write_holds(); }
  bool held_by_current_thread() const { return core_.write_holds() > 0; }

  // As in the options; empty for an unnamed lock. Valid as long as the lock.
  std::string_view name() const { return identity_.name(); }
  // How many threads wait now: a look, out of date when it is returned.
  uint64_t waiters() const { return core_.waiters(); }

 private:
  friend class ReentrantMutexGuard;

  internal::LockIdentity identity_;
  internal::LockCore core_;
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
