#ifndef STOCKADE_BASE_EXECUTOR_H_
#define STOCKADE_BASE_EXECUTOR_H_

#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "stockade/base/export.h"

namespace stockade {

// Where callbacks and background work run. Thread-safe.
class STOCKADE_EXPORT Executor {
 public:
  // Runs once.
  using Task = absl::AnyInvocable<void()>;

  virtual ~Executor() = default;

  // Runs `task` once, at some time after the call or within it. Must not throw. What a task throws is caught and
  // logged. Never blocks for long (InlineExecutor: as long as the task).
  virtual void Schedule(Task task) = 0;
};

// Runs each task within Schedule(), on the calling thread: for tests, and for callbacks that are short.
class STOCKADE_EXPORT InlineExecutor final : public Executor {
 public:
  void Schedule(Task task) override;
};

// A fixed number of threads over one unbounded first-in, first-out queue. The destructor runs what is queued, tasks
// that tasks add included, then joins; it must not run on a thread of the pool (aborts). Unusable in a forked child.
class STOCKADE_EXPORT ThreadPool final : public Executor {
 public:
  // `threads` is at least 1 (aborts otherwise).
  explicit ThreadPool(size_t threads);
  ~ThreadPool() override;

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // O(1); takes the pool's mutex.
  void Schedule(Task task) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stockade

#endif  // STOCKADE_BASE_EXECUTOR_H_
