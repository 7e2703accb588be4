#ifndef STOCKADE_BASE_TIMER_QUEUE_H_
#define STOCKADE_BASE_TIMER_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"

namespace stockade::internal {

// Runs tasks at given times, one after another, on one thread of its own, which starts when it is first needed. For
// tasks that are short: one that takes long delays the rest. Thread-safe.
class STOCKADE_EXPORT TimerQueue {
 public:
  // Names a task for Cancel(); ordered as the tasks are.
  using Id = std::pair<Instant, uint64_t>;

  // `clock` must outlive the queue.
  explicit TimerQueue(Clock* clock) : clock_(clock) {}
  ~TimerQueue();  // As Stop().
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // Waits for the task that runs, if one does; those that have not begun never will: they are destroyed, and so is what
  // is scheduled from now on, at once. By one thread, not within a task.
  void Stop();

  // Starts the thread unless it runs. ResourceExhausted: StartThread()'s. Once it is OK, every task runs in time. One
  // load once it runs.
  absl::Status Start();

  // Runs `task` when the clock passes `at`; what it throws ends the process. O(log n). Starts the thread; if that
  // fails, which is logged, the task waits until a later Schedule() or Start() succeeds.
  Id Schedule(Instant at, Executor::Task task);
  // The task will not run, unless it has begun; does not wait for it. O(log n).
  void Cancel(const Id& id);

 private:
  absl::Status StartLocked();  // With mutex_ held.
  void Run();

  Clock* const clock_;
  std::mutex mutex_;
  std::condition_variable changed_;     // The earliest task, or stopping_.
  std::map<Id, Executor::Task> tasks_;  // Guarded by mutex_.
  uint64_t next_ = 0;                   // Guarded by mutex_.
  bool stopping_ = false;               // Guarded by mutex_.
  std::thread thread_;                  // Started under mutex_.
  std::atomic<bool> started_{false};    // Written with mutex_ held. The thread runs.
};

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_TIMER_QUEUE_H_
