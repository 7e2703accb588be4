#ifndef STOCKADE_BASE_LAZY_THREAD_POOL_H_
#define STOCKADE_BASE_LAZY_THREAD_POOL_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"

namespace stockade::internal {

// A ThreadPool whose threads start when they are first needed. Thread-safe.
class STOCKADE_EXPORT LazyThreadPool final : public Executor {
 public:
  explicit LazyThreadPool(size_t threads) : threads_(threads) {}
  ~LazyThreadPool() override;  // As Finish().
  LazyThreadPool(const LazyThreadPool&) = delete;
  LazyThreadPool& operator=(const LazyThreadPool&) = delete;

  // Starts the threads unless they run. ResourceExhausted: StartThread()'s. One load once they run.
  absl::Status Start();

  // Runs the task within the call if the threads cannot be started, or after Finish(). Callers for which that is wrong
  // call Start() first.
  void Schedule(Task task) override;

  // The calling thread is one of the pool's.
  bool RunningInThisThread() const override;

  // Runs what is queued, and what that queues in turn, and joins. By one thread, not within a task.
  void Finish();

 private:
  const size_t threads_;
  std::mutex mutex_;
  bool finished_ = false;  // Guarded by mutex_.
  // Written with mutex_ held. Stays while Finish() waits for the tasks, which may schedule.
  std::atomic<ThreadPool*> pool_{nullptr};
};

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_LAZY_THREAD_POOL_H_
