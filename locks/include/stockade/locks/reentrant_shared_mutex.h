#ifndef STOCKADE_LOCKS_REENTRANT_SHARED_MUTEX_H_
#define STOCKADE_LOCKS_REENTRANT_SHARED_MUTEX_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <utility>

#include "stockade/base/export.h"
#include "stockade/base/thread_annotations.h"
#include "stockade/locks/internal/lock_core.h"
#include "stockade/locks/lock_options.h"

namespace stockade {

// A reentrant read-write lock: one writer or many readers. Meets the requirements of std::SharedTimedMutex, so
// std::unique_lock, std::shared_lock and std::scoped_lock work. Guards that clang's analysis supports are below.
//
//   a thread that holds     may acquire     how
//   nothing                 read, write     after waiting its turn
//   reads                   read            at once, before a waiting writer
//   reads                   write           try_upgrade() only: lock() would wait for itself and aborts; try_lock(),
//                                           try_lock_for() and try_lock_until() return false at once
//   writes (and reads)      read, write     at once
//
// Holds may be released in any order. A thread that releases its last write hold while it still has read holds becomes
// a reader, and no writer enters in between.
//
// Thread-safe; the thread that locked must unlock. lock(), lock_shared() and the timed calls block. Re-entry and the
// release of an inner hold use no atomic read-modify-write. After a long run of reads, outermost reads use none either
// and write nothing that another thread reads, until a writer arrives, which takes up to 20 us longer then. Memory
// order: unlock() happens before every later lock() and lock_shared(), and unlock_shared() before every later lock().
// Neither readers nor writers starve: see LockOptions::fifo. Memory: 192 bytes and the name; 1.25 KiB per thread.
//
// Aborts, with the lock's name, if a thread releases a lock that it does not hold, if a thread that only reads calls
// lock(), if the lock is destroyed while it is held or waited for, if a thread ends while it holds the lock, after more
// than 2^24 nested holds, and on any call in a forked child, where the destructor does nothing. Destructors of static
// and thread_local objects may use it.
class STOCKADE_CAPABILITY("shared_mutex") ReentrantSharedMutex {
 public:
  ReentrantSharedMutex() : ReentrantSharedMutex(LockOptions{}) {}
  // Aborts with the message of options.Validate() if an option is invalid.
  explicit ReentrantSharedMutex(const LockOptions& options)
      : identity_("ReentrantSharedMutex", options), core_(identity_) {}

  ReentrantSharedMutex(const ReentrantSharedMutex&) = delete;
  ReentrantSharedMutex& operator=(const ReentrantSharedMutex&) = delete;

  // Blocks until the lock is held for writing.
  void lock() STOCKADE_ACQUIRE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Lock(); }
  // Does not wait for a holder, but may take some 20 us to find out whether there is one (docs/LOCKS.md). With the FIFO
  // option it returns false if there are waiters, even if the lock is free.
  bool try_lock() STOCKADE_TRY_ACQUIRE(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS { return core_.TryLock(); }
  void unlock() STOCKADE_RELEASE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Unlock(); }

  // Blocks until the lock is held for reading.
  void lock_shared() STOCKADE_ACQUIRE_SHARED() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.LockShared(); }
  // Like try_lock().
  bool try_lock_shared() STOCKADE_TRY_ACQUIRE_SHARED(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return core_.TryLockShared();
  }
  void unlock_shared() STOCKADE_RELEASE_SHARED() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.UnlockShared(); }

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
  template <typename Rep, typename Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& span)
      STOCKADE_TRY_ACQUIRE_SHARED(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return core_.TryLockSharedUntil(locks_internal::DeadlineAfter(locks_internal::SaturatingNanoseconds(span)));
  }
  template <typename Clock, typename Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline)
      STOCKADE_TRY_ACQUIRE_SHARED(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return locks_internal::TryUntilOnClock(
        deadline, [this](locks_internal::SteadyDeadline at) { return core_.TryLockSharedUntil(at); });
  }

  // Turns one write hold of the calling thread, which must have one, into a read hold. If it was the last one, other
  // readers can enter, and no writer enters in between. Does not block.
  void downgrade() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Downgrade(); }
  // Turns one read hold of the calling thread, which must have one, into a write hold and returns true, if no other
  // thread reads. Otherwise returns false at once and changes nothing. It passes waiting writers, so what the thread
  // has read stays valid.
  bool try_upgrade() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { return core_.TryUpgrade(); }

  // The number of holds of the calling thread in each mode.
  uint32_t read_hold_count() const { return core_.read_holds(); }
  uint32_t write_hold_count() const { return core_.write_holds(); }
  // In either mode, and for writing.
  bool held_by_current_thread() const { return core_.read_holds() > 0 || core_.write_holds() > 0; }
  bool write_held_by_current_thread() const { return core_.write_holds() > 0; }

  // The name in the options; empty for an unnamed lock. Valid as long as the lock.
  std::string_view name() const { return identity_.name(); }
  // The number of threads that wait. May be outdated when it is returned.
  uint64_t waiters() const { return core_.waiters(); }

 private:
  friend class WriteGuard;
  friend class ReadGuard;

  locks_internal::LockIdentity identity_;
  locks_internal::LockCore core_;
};

// ReentrantSharedMutex::downgrade() for a std::unique_lock, which is empty afterwards. `held` must own its lock
// (aborts).
[[nodiscard]] STOCKADE_EXPORT std::shared_lock<ReentrantSharedMutex> Downgrade(
    std::unique_lock<ReentrantSharedMutex>&& held);

// ReentrantSharedMutex::try_upgrade() for a std::shared_lock, which must own its lock (aborts). On success the result
// owns the write hold and `held` is empty. On failure the result owns nothing and `held` keeps its read hold:
//
//   std::unique_lock write = TryUpgrade(std::move(read));
//   if (!write.owns_lock()) { read.unlock(); write = std::unique_lock(mutex); }  // What was read may be out of date.
[[nodiscard]] STOCKADE_EXPORT std::unique_lock<ReentrantSharedMutex> TryUpgrade(
    std::shared_lock<ReentrantSharedMutex>&& held);

// Holds a ReentrantSharedMutex for writing for a scope.
class STOCKADE_SCOPED_CAPABILITY WriteGuard {
 public:
  // Blocks until `mutex` is held for writing.
  explicit WriteGuard(ReentrantSharedMutex& mutex) STOCKADE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // Does nothing in a forked child.
  ~WriteGuard() STOCKADE_RELEASE() {
    if (!mutex_.identity_.InForkedChild()) mutex_.unlock();
  }

  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

 private:
  ReentrantSharedMutex& mutex_;
};

// Holds a ReentrantSharedMutex for reading for a scope.
class STOCKADE_SCOPED_CAPABILITY ReadGuard {
 public:
  // Blocks until `mutex` is held for reading.
  explicit ReadGuard(ReentrantSharedMutex& mutex) STOCKADE_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  // Does nothing in a forked child.
  ~ReadGuard() STOCKADE_RELEASE_GENERIC() {
    if (!mutex_.identity_.InForkedChild()) mutex_.unlock_shared();
  }

  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

 private:
  ReentrantSharedMutex& mutex_;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_REENTRANT_SHARED_MUTEX_H_
