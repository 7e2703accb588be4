#ifndef STOCKADE_TESTS_CACHE_MANUAL_EXECUTOR_H_
#define STOCKADE_TESTS_CACHE_MANUAL_EXECUTOR_H_

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "stockade/base/executor.h"

namespace stockade::testing {

// Keeps its tasks until RunAll(), which runs them on the calling thread; what is left then never runs.
class ManualExecutor final : public Executor {
 public:
  void Schedule(Task task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++scheduled_;
  }
  // Tasks that tasks add included.
  void RunAll() {
    for (;;) {
      std::vector<Task> tasks;
      {
        const std::lock_guard lock(mutex_);
        tasks.swap(tasks_);
      }
      if (tasks.empty()) return;
      for (Task& task : tasks) task();
    }
  }
  // Tasks so far, those that have run included.
  size_t scheduled() const {
    const std::lock_guard lock(mutex_);
    return scheduled_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Task> tasks_;
  size_t scheduled_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_MANUAL_EXECUTOR_H_
