#ifndef STOCKADE_BASE_MANUAL_CLOCK_H_
#define STOCKADE_BASE_MANUAL_CLOCK_H_

#include <cstddef>
#include <list>

#include "stockade/base/clock.h"
#include "stockade/base/export.h"
#include "stockade/base/mutex.h"

namespace stockade {

// A clock for tests. Its time changes only through Advance() and StepWallTime(), and Advance() wakes every thread whose
// deadline has passed. With AwaitWaiters() a test waits until a thread has parked before it advances the clock, so that
// no test needs to sleep. Thread-safe. Must outlive every thread that waits on it.
class STOCKADE_EXPORT ManualClock final : public Clock {
 public:
  ManualClock() = default;
  ManualClock(const ManualClock&) = delete;
  ManualClock& operator=(const ManualClock&) = delete;

  Instant Now() const override;
  Instant CoarseNow() const override;
  absl::Time WallNow() const override;
  bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) override;

  // Advances both the boot time and the wall time by `span`, which must not be negative (aborts).
  void Advance(absl::Duration span);
  // Changes the wall time alone, as an administrator or NTP does.
  void StepWallTime(absl::Duration span);

  // Blocks until at least `count` threads are parked in WaitUntil() with a finite deadline.
  void AwaitWaiters(size_t count);

 private:
  // A thread inside WaitUntil(). It stays on the list, and its cv and mutex stay alive, while `pins` is above zero.
  // Advance() can therefore lock and notify it without holding mutex_. (A waiter locks its own mutex before mutex_.)
  struct Waiter {
    std::condition_variable* cv;
    std::mutex* mutex;
    Instant deadline;
    int pins = 0;
  };

  mutable base_internal::Mutex mutex_;
  base_internal::CondVar changed_;  // A waiter was added, or a pin was dropped.
  Instant now_ STOCKADE_GUARDED_BY(mutex_) = Instant::FromNanoseconds(1'000'000'000);
  absl::Time wall_now_ STOCKADE_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1'700'000'000);
  std::list<Waiter> waiters_ STOCKADE_GUARDED_BY(mutex_);
};

}  // namespace stockade

#endif  // STOCKADE_BASE_MANUAL_CLOCK_H_
