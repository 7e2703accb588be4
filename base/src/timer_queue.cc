#include "stockade/base/timer_queue.h"

#include "stockade/base/log.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {

TimerQueue::~TimerQueue() { Stop(); }

void TimerQueue::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  std::map<Id, Executor::Task> dropped;  // Destroyed after the mutex is released: they are the user's.
  const MutexLock lock(mutex_);
  dropped.swap(tasks_);
}

absl::Status TimerQueue::Start() {
  if (started_.load(std::memory_order_relaxed)) return absl::OkStatus();
  const MutexLock lock(mutex_);
  return StartLocked();
}

absl::Status TimerQueue::StartLocked() {
  if (stopping_ || thread_.joinable()) return absl::OkStatus();
  absl::Status started = StartThread(thread_, [this] { Run(); });
  if (started.ok()) started_.store(true, std::memory_order_relaxed);
  return started;
}

TimerQueue::Id TimerQueue::Schedule(Instant at, Executor::Task task) {
  const MutexLock lock(mutex_);
  const Id id{at, next_++};
  if (stopping_) return id;
  tasks_.emplace(id, std::move(task));
  if (const absl::Status started = StartLocked(); !started.ok()) {
    Log(LogSeverity::kWarning, Concat("timers are delayed: ", started.message()));
  }
  if (tasks_.begin()->first == id) changed_.NotifyAll();
  return id;
}

void TimerQueue::Cancel(const Id& id) {
  Executor::Task dropped;  // Destroyed after the mutex is released: it is the user's.
  const MutexLock lock(mutex_);
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  dropped = std::move(found->second);
  tasks_.erase(found);
}

void TimerQueue::Run() {
  const MutexLock lock(mutex_);
  while (!stopping_) {
    if (tasks_.empty() || clock_->Now() < tasks_.begin()->first.first) {
      changed_.WaitUntil(*clock_, mutex_, tasks_.empty() ? Instant::InfiniteFuture() : tasks_.begin()->first.first);
      continue;
    }
    Executor::Task due = std::move(tasks_.begin()->second);
    tasks_.erase(tasks_.begin());
    const MutexUnlock unlocked(mutex_);
    due();
    due = nullptr;
  }
}

}  // namespace stockade::base_internal
