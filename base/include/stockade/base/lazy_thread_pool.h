#ifndef STOCKADE_BASE_LAZY_THREAD_POOL_H_
#define STOCKADE_BASE_LAZY_THREAD_POOL_H_

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"
#include "stockade/base/mutex.h"

namespace stockade::base_internal {

// A ThreadPool that starts its threads when they are first needed. Thread-safe.
class STOCKADE_EXPORT LazyThreadPool final : public Executor {
 public:
  explicit LazyThreadPool(size_t threads) : threads_(threads) {}
  ~LazyThreadPool() override;  // Calls Finish().
  LazyThreadPool(const LazyThreadPool&) = delete;
  LazyThreadPool& operator=(const LazyThreadPool&) = delete;

  // Starts the threads if they do not run yet. ResourceExhausted as from StartThread(). Costs one load once they run.
  absl::Status Start();

  // Runs the task during the call if the threads cannot be started, or after Finish(). Callers that cannot accept this
  // call Start() first.
  void Schedule(Task task) override;

  // Whether the calling thread belongs to the pool.
  bool RunningInThisThread() const override;

  // Runs all queued tasks, including those that tasks add, and joins the threads. Called by one thread, and not by a
  // task.
  void Finish();

 private:
  const size_t threads_;
  Mutex mutex_;
  bool finished_ STOCKADE_GUARDED_BY(mutex_) = false;
  // Written with mutex_ held. Remains set while Finish() waits for the tasks, because they may call Schedule().
  std::atomic<ThreadPool*> pool_{nullptr};
};

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_LAZY_THREAD_POOL_H_
