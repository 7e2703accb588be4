#include "wait_room.h"

#include <utility>

namespace stockade::locks_internal {

HoldKey WaitRoom::QueueOf(const HoldKey& hold) const {
  HoldKey queue = hold;
  if (!engine_.Queues(hold.kind)) queue.owner = kNoOwner;
  return queue;
}

void WaitRoom::Join(Waiter& waiter, const HoldKey& hold, Instant retry_at) {
  {
    const MutexLock lock(mutex_);
    waiter.queue_ = QueueOf(hold);
    waiter.waiting_ = true;
    waiter.retry_at_ = retry_at;
    waiter.hinted_ = false;
    waiter.awaits_turn_ = false;
    ++waiters_;
    std::unique_ptr<Queue>& queue = queues_[waiter.queue_];
    const bool first = queue == nullptr;
    if (first) queue = std::make_unique<Queue>();
    waiter.place_ = queue->waiters.insert(queue->waiters.end(), &waiter);
    if (!first) return;
  }
  // Without the mutex, which hints take. The queue stays meanwhile, since this waiter is in it.
  std::unique_ptr<LockWatch> watch = engine_.Watch(hold, [this, key = QueueOf(hold)] { Hint(key); });
  const MutexLock lock(mutex_);
  queues_[waiter.queue_]->watch = std::move(watch);
}

void WaitRoom::SetRetryAt(Waiter& waiter, Instant retry_at) {
  const MutexLock lock(mutex_);
  waiter.retry_at_ = retry_at;
}

void WaitRoom::ForgetHint(Waiter& waiter) {
  const MutexLock lock(mutex_);
  waiter.hinted_ = false;
}

bool WaitRoom::WorthATry(Waiter& waiter, Instant now, Instant& look_at) {
  const MutexLock lock(mutex_);
  if (waiter.hinted_) return true;
  if (now < waiter.retry_at_) {
    look_at = waiter.retry_at_;
    return false;
  }
  look_at = Instant::InfiniteFuture();
  waiter.awaits_turn_ = queues_[waiter.queue_]->waiters.front() != &waiter;
  return !waiter.awaits_turn_;
}

void WaitRoom::DoubtHints(const Waiter& waiter) {
  const MutexLock lock(mutex_);
  for (Waiter* const doubting : queues_[waiter.queue_]->waiters) Give(*doubting);
}

void WaitRoom::Leave(Waiter& waiter, bool entered) {
  std::unique_ptr<Queue> empty;  // Its watch is ended without the mutex, which hints take.
  const MutexLock lock(mutex_);
  if (!std::exchange(waiter.waiting_, false)) return;
  --waiters_;
  const auto entry = queues_.find(waiter.queue_);
  std::list<Waiter*>& waiters = entry->second->waiters;
  waiters.erase(waiter.place_);
  if (waiters.empty()) {
    empty = std::move(entry->second);
    queues_.erase(entry);
    return;
  }
  Waiter& first = *waiters.front();
  if (waiter.hinted_ || (entered && waiter.queue_.kind == LockKind::kRead)) {
    Give(first);
  } else if (std::exchange(first.awaits_turn_, false)) {
    first.Wake();
  }
}

void WaitRoom::WakeAll() {
  const MutexLock lock(mutex_);
  for (const auto& [key, queue] : queues_) {
    for (Waiter* const waiter : queue->waiters) waiter->Wake();
  }
}

size_t WaitRoom::waiters() const {
  const MutexLock lock(mutex_);
  return waiters_;
}

void WaitRoom::Hint(const HoldKey& key) {
  const MutexLock lock(mutex_);
  const auto entry = queues_.find(key);
  if (entry == queues_.end()) return;
  const std::list<Waiter*>& waiters = entry->second->waiters;
  if (key.kind != LockKind::kRead) return Give(*waiters.front());
  for (Waiter* const waiter : waiters) Give(*waiter);
}

void WaitRoom::Give(Waiter& waiter) {
  if (!std::exchange(waiter.hinted_, true)) waiter.Wake();
}

}  // namespace stockade::locks_internal
