#include "stockade/base/executor.h"

#include <deque>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "stockade/base/fork_guard.h"
#include "stockade/base/log.h"
#include "stockade/base/mutex.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

// The state of the pool to which the calling thread belongs.
constinit thread_local const void* pool_of_this_thread = nullptr;

void RunGuarded(Executor::Task& task) {
  try {
    std::move(task)();
  } catch (const std::exception& error) {
    base_internal::Log(LogSeverity::kError, base_internal::Concat("a task on an Executor threw: ", error.what()));
  } catch (...) {
    base_internal::Log(LogSeverity::kError, "a task on an Executor threw something that is not a std::exception");
  }
}

}  // namespace

void InlineExecutor::Schedule(Task task) {
  if (!task) base_internal::Fatal("InlineExecutor: Schedule() was called without a task");
  RunGuarded(task);
}

struct ThreadPool::State {
  base_internal::ForkGuard fork_guard;
  base_internal::Mutex mutex;
  base_internal::CondVar wake;
  std::deque<Task> queue STOCKADE_GUARDED_BY(mutex);
  bool stopping STOCKADE_GUARDED_BY(mutex) = false;
  std::vector<std::thread> threads;

  // Invariant: a thread leaves only when it is stopping and the queue is empty, so whatever a task adds is run by the
  // thread that ran the task if by nobody else.
  void Work() {
    pool_of_this_thread = this;
    const base_internal::MutexLock lock(mutex);
    for (;;) {
      while (!stopping && queue.empty()) wake.Wait(mutex);
      if (queue.empty()) return;
      Task task = std::move(queue.front());
      queue.pop_front();
      const base_internal::MutexUnlock unlocked(mutex);
      RunGuarded(task);
      task = nullptr;  // What it captured is destroyed without the mutex: it may schedule.
    }
  }
};

ThreadPool::ThreadPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

// It is constructed before Start(), so the destructor joins the threads that run if one cannot be started.
ThreadPool::ThreadPool(size_t threads) : ThreadPool(std::make_unique<State>()) {
  if (!Start(threads).ok()) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "ThreadPool");
  }
}

absl::StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::Create(size_t threads) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool(std::make_unique<State>()));
  if (absl::Status started = pool->Start(threads); !started.ok()) return started;
  return pool;
}

absl::Status ThreadPool::Start(size_t threads) {
  if (threads == 0) base_internal::Fatal("ThreadPool(threads = 0): at least one thread is needed");
  state_->threads.reserve(threads);
  while (state_->threads.size() < threads) {
    std::thread thread;
    absl::Status started = base_internal::StartThread(thread, [state = state_.get()] { state->Work(); });
    if (!started.ok()) return started;
    state_->threads.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

ThreadPool::~ThreadPool() {
  if (state_->fork_guard.InForkedChild()) {
    (void)state_.release();  // Its threads and the state of its mutex stayed with the parent.
    return;
  }
  [this] {  // A lambda is analysed, unlike its destructor.
    const base_internal::MutexLock lock(state_->mutex);
    state_->stopping = true;
  }();
  state_->wake.NotifyAll();
  for (std::thread& thread : state_->threads) {
    if (thread.get_id() == std::this_thread::get_id())
      base_internal::Fatal("ThreadPool destroyed by one of its own tasks");
    thread.join();
  }
}

bool ThreadPool::RunningInThisThread() const { return pool_of_this_thread == state_.get(); }

void ThreadPool::Schedule(Task task) {
  state_->fork_guard.Check("ThreadPool", "");
  if (!task) base_internal::Fatal("ThreadPool: Schedule() was called without a task");
  const base_internal::MutexLock lock(state_->mutex);
  state_->queue.push_back(std::move(task));
  // With the mutex held: whom the task tells that it has run may destroy the pool.
  state_->wake.NotifyOne();
}

}  // namespace stockade
