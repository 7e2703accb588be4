#ifndef STOCKADE_BASE_EXECUTOR_H_
#define STOCKADE_BASE_EXECUTOR_H_

#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
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

  // Whether the calling thread is one of those that this executor needs to run its tasks: to wait on it for such a task
  // may be to wait for ever. What cannot tell says no. Callers may hold locks: it must not block, throw, or call
  // the library.
  virtual bool RunningInThisThread() const { return false; }
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
  // `threads` is at least 1 (aborts otherwise). Throws std::system_error if the system gives fewer; none is left then.
  explicit ThreadPool(size_t threads);
  // As the constructor, without an exception. ResourceExhausted: the system gives fewer threads.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Create(size_t threads);
  ~ThreadPool() override;

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // O(1); takes the pool's mutex.
  void Schedule(Task task) override;
  // The calling thread is one of the pool's.
  bool RunningInThisThread() const override;

 private:
  struct State;
  explicit ThreadPool(std::unique_ptr<State> state);
  absl::Status Start(size_t threads);

  std::unique_ptr<State> state_;
};

}  // namespace stockade

#endif  // STOCKADE_BASE_EXECUTOR_H_
