#include "stockade/base/manual_clock.h"

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade {

Instant ManualClock::Now() const {
  const base_internal::MutexLock lock(mutex_);
  return now_;
}

Instant ManualClock::CoarseNow() const { return Now(); }

absl::Time ManualClock::WallNow() const {
  const base_internal::MutexLock lock(mutex_);
  return wall_now_;
}

bool ManualClock::WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) {
  if (deadline == Instant::InfiniteFuture()) {
    cv.wait(lock);
    return true;
  }
  std::list<Waiter>::iterator self;
  {
    const base_internal::MutexLock own(mutex_);
    if (now_ >= deadline) return false;
    self = waiters_.insert(waiters_.end(), Waiter{&cv, lock.mutex(), deadline});
    changed_.NotifyAll();
  }
  // No wake-up is lost: Advance() takes lock.mutex() before it notifies, which it can only do once wait() has released
  // it, and AwaitWaiters() may tell of this waiter early without harm for the same reason.
  cv.wait(lock);
  // Advance() may be about to take lock.mutex(): give it up until the pins are gone.
  lock.unlock();
  bool before_deadline;
  {
    const base_internal::MutexLock own(mutex_);
    while (self->pins > 0) changed_.Wait(mutex_);
    before_deadline = now_ < deadline;
    waiters_.erase(self);
  }
  lock.lock();
  return before_deadline;
}

void ManualClock::Advance(absl::Duration span) {
  if (span < absl::ZeroDuration()) {
    base_internal::Fatal(
        base_internal::Concat("ManualClock::Advance(", absl::FormatDuration(span), "): the span must not be negative"));
  }
  const base_internal::MutexLock own(mutex_);
  now_ = now_ + span;
  wall_now_ += span;
  for (Waiter& waiter : waiters_) {
    if (waiter.deadline <= now_) ++waiter.pins;
  }
  const Instant reached = now_;
  for (auto waiter = waiters_.begin(); waiter != waiters_.end(); ++waiter) {
    // Waiters that came after the pass above saw the new time; those that it pinned cannot leave the list.
    if (waiter->pins == 0 || waiter->deadline > reached) continue;
    {
      const base_internal::MutexUnlock unlocked(mutex_);
      const std::lock_guard theirs(*waiter->mutex);
      waiter->cv->notify_all();
    }
    --waiter->pins;
    changed_.NotifyAll();
  }
}

void ManualClock::StepWallTime(absl::Duration span) {
  const base_internal::MutexLock lock(mutex_);
  wall_now_ += span;
}

void ManualClock::AwaitWaiters(size_t count) {
  const base_internal::MutexLock own(mutex_);
  while (waiters_.size() < count) changed_.Wait(mutex_);
}

}  // namespace stockade
