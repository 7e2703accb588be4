#ifndef STOCKADE_TESTS_COROUTINE_COROUTINES_H_
#define STOCKADE_TESTS_COROUTINE_COROUTINES_H_

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "stockade/base/cpu_relax.h"
#include "stockade/base/executor.h"
#include "support/await.h"

namespace stockade::testing {

// A coroutine that begins at once, and whose frame lives as long as this, unless it is detached.
class Routine {
 public:
  struct promise_type {
    Routine get_return_object() { return Routine(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };

  Routine() = default;
  Routine(Routine&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Routine& operator=(Routine&& other) noexcept {
    Destroy();
    frame_ = std::exchange(other.frame_, nullptr);
    return *this;
  }
  ~Routine() { Destroy(); }

  void Destroy() {
    if (frame_ != nullptr) std::exchange(frame_, nullptr).destroy();
  }

 private:
  explicit Routine(std::coroutine_handle<promise_type> frame) : frame_(frame) {}

  std::coroutine_handle<promise_type> frame_;
};

// As Routine, but its frame ends with it, and it moves what it awaits, as folly's and unifex's coroutines do.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
    template <typename Awaitable>
    Awaitable await_transform(Awaitable&& awaitable) {
      return std::forward<Awaitable>(awaitable);
    }
  };
};

// For a moment, which does not end with a wake-up.
inline void Spin(uint64_t times) {
  for (uint64_t i = 0; i < times; ++i) base_internal::CpuRelax();
}

// Tasks wait until the test runs them, on its thread.
class TaskQueue final : public Executor {
 public:
  void Schedule(Task task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return tasks_.size();
  }
  void AwaitTask() const {
    Await("a task", [this] { return size() > 0; });
  }
  // Blocks until there is one.
  void RunOne() {
    AwaitTask();
    Task task = Pop();
    std::move(task)();
  }
  void DropOne() {
    AwaitTask();
    (void)Pop();
  }

 private:
  Task Pop() {
    const std::lock_guard lock(mutex_);
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  mutable std::mutex mutex_;
  std::deque<Task> tasks_;
};

// Destroys each task, and throws or does not.
class FaultyExecutor final : public Executor {
 public:
  explicit FaultyExecutor(bool throws) : throws_(throws) {}
  void Schedule(Task task) override {
    task = nullptr;
    if (throws_) throw std::runtime_error("full");
  }

 private:
  const bool throws_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_COROUTINE_COROUTINES_H_
