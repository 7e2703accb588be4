#include "stockade/locks/access_monitor.h"

#include <condition_variable>

#include "lock_metrics.h"

namespace stockade::internal {

// One thread in Enter(), on its stack. Each has a condition variable of its own, so that freeing the lock wakes the one
// that may enter and nobody else. It is notified with mutex_ held: the thread cannot leave Enter() meanwhile.
struct AccessMonitor::Waiter {
  const LockMode mode;
  const uint64_t passes_at_arrival;
  std::condition_variable turn{};
  Waiter* previous = nullptr;
  Waiter* next = nullptr;
};

bool AccessMonitor::MayPass() const {
  // The head came first, so it has been passed most often.
  return head_ == nullptr || passes_ - head_->passes_at_arrival < max_passes_;
}

void AccessMonitor::Occupy(LockMode mode) {
  if (mode == LockMode::kExclusive) {
    writer_ = true;
  } else {
    ++readers_;
  }
}

bool AccessMonitor::TryEnterLocked(LockMode mode) {
  if (!IsFree(mode) || !MayPass()) return false;
  if (head_ != nullptr) ++passes_;
  Occupy(mode);
  return true;
}

bool AccessMonitor::TryEnter(LockMode mode) {
  std::lock_guard lock(mutex_);
  return TryEnterLocked(mode);
}

LockEntry AccessMonitor::Enter(LockMode mode, SteadyDeadline deadline, LockMetrics* metrics) {
  std::unique_lock lock(mutex_);
  if (TryEnterLocked(mode)) return LockEntry::kAtOnce;
  Waiter self{.mode = mode, .passes_at_arrival = passes_, .previous = tail_};
  (tail_ == nullptr ? head_ : tail_->next) = &self;
  tail_ = &self;
  ++waiting_;
  if (metrics != nullptr) metrics->WaitBegins();

  // Checked again after a time-out: a thread whose turn has come does not turn away.
  const auto may_enter = [&] { return head_ == &self && IsFree(mode); };
  if (deadline == kNever) {
    self.turn.wait(lock, may_enter);
  } else {
    self.turn.wait_until(lock, deadline, may_enter);
  }
  const bool entered = may_enter();
  Remove(&self);
  if (entered) Occupy(mode);
  // Either the next is a reader behind a reader, or this thread gave up and perhaps took the wake-up with it.
  WakeHead();
  if (metrics != nullptr) metrics->WaitEnds();
  return entered ? LockEntry::kAfterWait : LockEntry::kTimedOut;
}

void AccessMonitor::Leave(LockMode mode) {
  std::lock_guard lock(mutex_);
  if (mode == LockMode::kExclusive) {
    writer_ = false;
  } else {
    --readers_;
  }
  WakeHead();
}

void AccessMonitor::Downgrade() {
  std::lock_guard lock(mutex_);
  writer_ = false;
  ++readers_;
  WakeHead();
}

bool AccessMonitor::TryUpgrade() {
  std::lock_guard lock(mutex_);
  if (readers_ != 1) return false;
  readers_ = 0;
  writer_ = true;
  return true;
}

bool AccessMonitor::idle() {
  std::lock_guard lock(mutex_);
  return !writer_ && readers_ == 0 && head_ == nullptr;
}

uint64_t AccessMonitor::waiters() {
  std::lock_guard lock(mutex_);
  return waiting_;
}

void AccessMonitor::Remove(Waiter* waiter) {
  (waiter->previous == nullptr ? head_ : waiter->previous->next) = waiter->next;
  (waiter->next == nullptr ? tail_ : waiter->next->previous) = waiter->previous;
  --waiting_;
}

void AccessMonitor::WakeHead() {
  if (head_ != nullptr && IsFree(head_->mode)) head_->turn.notify_one();
}

}  // namespace stockade::internal
