#ifndef STOCKADE_BASE_TIMER_QUEUE_H_
#define STOCKADE_BASE_TIMER_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"

namespace stockade::base_internal {

// Runs tasks at given times, one after another, on one thread of its own, which starts when it is first needed. Tasks
// must be short, because a long one delays the others. Thread-safe.
class STOCKADE_EXPORT TimerQueue {
 public:
  // Identifies a task for Cancel(). Ids have the same order as the tasks.
  using Id = std::pair<Instant, uint64_t>;

  // `clock` must outlive the queue.
  explicit TimerQueue(Clock* clock) : clock_(clock) {}
  ~TimerQueue();  // Calls Stop().
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // Waits for the task that runs, if any. Tasks that have not begun are destroyed without running, and so are tasks
  // that are scheduled later. Called by one thread, and not by a task.
  void Stop();

  // Starts the thread if it does not run yet. ResourceExhausted as from StartThread(). After OK, every task runs in
  // time. Costs one load once the thread runs.
  absl::Status Start();

  // Runs `task` when the clock passes `at`. An exception that it throws ends the process. O(log n). Starts the thread;
  // if that fails, the failure is logged and the task waits until a later Schedule() or Start() succeeds.
  Id Schedule(Instant at, Executor::Task task);
  // Prevents the task from running unless it has begun. Does not wait for it. O(log n).
  void Cancel(const Id& id);

 private:
  absl::Status StartLocked() STOCKADE_REQUIRES(mutex_);
  void Run();

  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;  // The earliest task or stopping_ changed.
  std::map<Id, Executor::Task> tasks_ STOCKADE_GUARDED_BY(mutex_);
  uint64_t next_ STOCKADE_GUARDED_BY(mutex_) = 0;
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;                // Started with mutex_ held.
  std::atomic<bool> started_{false};  // Written with mutex_ held. True if the thread runs.
};

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_TIMER_QUEUE_H_
