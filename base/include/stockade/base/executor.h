#ifndef STOCKADE_BASE_EXECUTOR_H_
#define STOCKADE_BASE_EXECUTOR_H_

#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stockade/base/export.h"

namespace stockade {

// Runs callbacks and background work. Thread-safe. A task must not end its thread: pthread_exit() or pthread_cancel()
// within a task aborts the process.
class STOCKADE_EXPORT Executor {
 public:
  // Invoked once.
  using Task = absl::AnyInvocable<void()>;

  virtual ~Executor() = default;

  // Runs `task`, which must not be empty, once, during the call or later. Must not throw, except for std::bad_alloc
  // before anything runs, if there is no memory: callers say what happens then. Exceptions that the task throws are
  // caught and logged. Never blocks for long, except that InlineExecutor runs the task itself.
  virtual void Schedule(Task task) = 0;

  // Whether the calling thread is one of those that this executor needs in order to run its tasks. Such a thread may
  // deadlock if it waits for a task of this executor. An executor that cannot tell returns false. Callers may hold
  // locks, so implementations must not block, throw or call the library.
  virtual bool RunningInThisThread() const { return false; }
};

// Runs each task on the calling thread, within Schedule(). An empty task aborts. For tests and for short callbacks.
class STOCKADE_EXPORT InlineExecutor final : public Executor {
 public:
  void Schedule(Task task) override;
};

// A fixed number of threads that share one unbounded FIFO queue. The destructor runs all queued tasks, including those
// that tasks add, and then joins the threads. It must not run on a thread of the pool (aborts). Not usable in a forked
// child.
class STOCKADE_EXPORT ThreadPool final : public Executor {
 public:
  // `threads` is at least 1 (aborts otherwise). Throws std::system_error if the system cannot start that many threads;
  // those that were started have ended by then.
  explicit ThreadPool(size_t threads);
  // Like the constructor, but returns ResourceExhausted instead of throwing.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Create(size_t threads);
  ~ThreadPool() override;

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // O(1); takes the pool's mutex. An empty task aborts.
  void Schedule(Task task) override;
  // Whether the calling thread belongs to the pool.
  bool RunningInThisThread() const override;

 private:
  struct State;
  explicit ThreadPool(std::unique_ptr<State> state);
  absl::Status Start(size_t threads);

  std::unique_ptr<State> state_;
};

}  // namespace stockade

#endif  // STOCKADE_BASE_EXECUTOR_H_
