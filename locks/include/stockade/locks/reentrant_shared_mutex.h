#ifndef STOCKADE_LOCKS_REENTRANT_SHARED_MUTEX_H_
#define STOCKADE_LOCKS_REENTRANT_SHARED_MUTEX_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <utility>

#include "stockade/base/export.h"
#include "stockade/locks/lock_core.h"
#include "stockade/locks/lock_options.h"
#include "stockade/locks/thread_annotations.h"

namespace stockade {

// A reentrant read-write lock: one writer or many readers. Meets std::SharedTimedMutex's requirements, so
// std::unique_lock, std::shared_lock and std::scoped_lock work; guards that clang's analysis understands are below.
//
//   a thread that holds     may take        by
//   nothing                 read, write     waiting its turn
//   reads                   read            at once, past a waiting writer
//   reads                   write           try_upgrade() only: lock() would wait for itself and aborts, try_lock() and
//                                           its timed kin are false at once
//   writes (and reads)      read, write     at once
//
// Holds are released in any order. A thread that gives up its last write hold while it still holds reads goes on as a
// reader, with no writer in between.
//
// Threads: every call is safe from any thread; the thread that locked unlocks. lock(), lock_shared() and the timed
// calls block. Re-entry and the release of an inner hold do no atomic read-modify-write. After a long run of reads nor
// do the outermost reads, which then write nothing that another thread reads, until a writer comes; it pays for that
// with up to 20 us. Ordering: unlock() happens before every lock() and lock_shared() that follows it, unlock_shared()
// before every lock() that follows. Neither readers nor writers starve: see LockOptions::fifo. Memory: 192 bytes and
// the name; 1.25 KiB a thread.
//
// Aborts with the lock's name: release by a thread that does not hold; lock() by one that only reads; destruction while
// it is held or waited for; a thread that ends while it holds; more than 2^24 nested holds; any call in a forked child,
// where the destructor does nothing. It may be used by destructors of statics and thread_locals.
class STOCKADE_CAPABILITY("shared_mutex") ReentrantSharedMutex {
 public:
  ReentrantSharedMutex() : ReentrantSharedMutex(LockOptions{}) {}
  // Aborts with the text of options.Validate().
  explicit ReentrantSharedMutex(const LockOptions& options)
      : identity_("ReentrantSharedMutex", options), core_(identity_) {}

  ReentrantSharedMutex(const ReentrantSharedMutex&) = delete;
  ReentrantSharedMutex& operator=(const ReentrantSharedMutex&) = delete;

  // Blocks until it is held for writing.
  void lock() STOCKADE_ACQUIRE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Lock(); }
  // Does not wait for any holder, though it may take some 20 us to find out whether there is one (docs/LOCKS.md). With
  // the FIFO option it is false where somebody waits, even if the lock is free.
  bool try_lock() STOCKADE_TRY_ACQUIRE(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS { return core_.TryLock(); }
  void unlock() STOCKADE_RELEASE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Unlock(); }

  // Blocks until it is held for reading.
  void lock_shared() STOCKADE_ACQUIRE_SHARED() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.LockShared(); }
  // As try_lock().
  bool try_lock_shared() STOCKADE_TRY_ACQUIRE_SHARED(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return core_.TryLockShared();
  }
  void unlock_shared() STOCKADE_RELEASE_SHARED() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.UnlockShared(); }

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
  template <typename Rep, typename Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& span)
      STOCKADE_TRY_ACQUIRE_SHARED(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return core_.TryLockSharedUntil(internal::DeadlineAfter(internal::SaturatingNanoseconds(span)));
  }
  template <typename Clock, typename Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline)
      STOCKADE_TRY_ACQUIRE_SHARED(true) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return internal::TryUntilOnClock(deadline,
                                     [this](internal::SteadyDeadline at) { return core_.TryLockSharedUntil(at); });
  }

  // Turns one write hold of the calling thread, which must have one, into a read hold. If it was the last, other
  // readers get in, and no writer in between. Does not block.
  void downgrade() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { core_.Downgrade(); }
  // Turns one read hold of the calling thread, which must have one, into a write hold, if no other thread reads: true.
  // False at once otherwise, and nothing has changed. It passes writers that wait; what was read stays true.
  bool try_upgrade() STOCKADE_NO_THREAD_SAFETY_ANALYSIS { return core_.TryUpgrade(); }

  // How often the calling thread holds it, in each mode.
  uint32_t read_hold_count() const { return core_.read_holds(); }
  uint32_t write_hold_count() const { return core_.write_holds(); }
  // In either mode; for writing.
  bool held_by_current_thread() const { return core_.read_holds() > 0 || core_.write_holds() > 0; }
  bool write_held_by_current_thread() const { return core_.write_holds() > 0; }

  // As in the options; empty for an unnamed lock. Valid as long as the lock.
  std::string_view name() const { return identity_.name(); }
  // How many threads wait now: a look, out of date when it is returned.
  uint64_t waiters() const { return core_.waiters(); }

 private:
  friend class WriteGuard;
  friend class ReadGuard;

  internal::LockIdentity identity_;
  internal::LockCore core_;
};

// ReentrantSharedMutex::downgrade() for a std::unique_lock, which is left empty. `held` must own its lock (aborts).
[[nodiscard]] STOCKADE_EXPORT std::shared_lock<ReentrantSharedMutex> Downgrade(
    std::unique_lock<ReentrantSharedMutex>&& held);

// ReentrantSharedMutex::try_upgrade() for a std::shared_lock, which must own its lock (aborts). On success the result
// owns the write hold and `held` is left empty; on failure the result owns nothing and `held` keeps its read hold:
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
