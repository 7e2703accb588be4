#ifndef STOCKADE_BASE_MUTEX_H_
#define STOCKADE_BASE_MUTEX_H_

#include <condition_variable>
#include <mutex>

#include "stockade/base/clock.h"
#include "stockade/base/floors.h"
#include "stockade/base/instant.h"
#include "stockade/base/thread_annotations.h"

namespace stockade::base_internal {

// std::mutex and std::condition_variable with the attributes of clang's thread-safety analysis. They cost the same.
// State says what guards it (STOCKADE_GUARDED_BY), and functions say what they need (STOCKADE_REQUIRES).

class STOCKADE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // The standard's names, so that std::scoped_lock locks several at once.
  void lock() STOCKADE_ACQUIRE() { mutex_.lock(); }
  bool try_lock() STOCKADE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() STOCKADE_RELEASE() { mutex_.unlock(); }

  // Tells the analysis that the caller holds it. Only where the analysis cannot see it, with the reason.
  void AssertHeld() const STOCKADE_ASSERT_CAPABILITY(this) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for a scope: a Mutex, or another class with lock() and unlock() that is a capability.
template <typename Lockable>
class STOCKADE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Lockable& mutex) STOCKADE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() STOCKADE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Lockable& mutex_;
};

// Releases a mutex that the caller holds, and locks it again at the end of the scope, also after an exception.
template <typename Lockable>
class STOCKADE_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Lockable& mutex) STOCKADE_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() STOCKADE_RELEASE() { mutex_.lock(); }  // Ends the release: that is how the analysis wants it.
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Lockable& mutex_;
};

class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Spurious wake-ups are possible: callers check their condition in a loop.
  void Wait(Mutex& mutex) STOCKADE_REQUIRES(mutex) {
    Adopted held(mutex);
    condition_.wait(held.lock);
  }
  // As Clock::WaitUntil(): false if the deadline has passed.
  bool WaitUntil(Clock& clock, Mutex& mutex, Instant deadline) STOCKADE_REQUIRES(mutex) {
    Adopted held(mutex);
    return clock.WaitUntil(condition_, held.lock, deadline);
  }

  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

  std::condition_variable& native() { return condition_; }

 private:
  // Lends the caller's lock to the standard library, which gives it back locked.
  struct Adopted {
    explicit Adopted(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_MUTEX_H_
