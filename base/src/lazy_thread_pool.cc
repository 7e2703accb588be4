#include "stockade/base/lazy_thread_pool.h"

#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {

LazyThreadPool::~LazyThreadPool() { Finish(); }

absl::Status LazyThreadPool::Start() {
  if (pool_.load(std::memory_order_acquire) != nullptr) return absl::OkStatus();
  const MutexLock lock(mutex_);
  if (finished_) return absl::CancelledError("the thread pool has been shut down");
  if (pool_.load(std::memory_order_relaxed) != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<ThreadPool>> pool = ThreadPool::Create(threads_);
  if (!pool.ok()) return pool.status();
  pool_.store(pool->release(), std::memory_order_release);
  return absl::OkStatus();
}

void LazyThreadPool::Schedule(Task task) {
  const absl::Status started = Start();
  if (started.ok()) return pool_.load(std::memory_order_acquire)->Schedule(std::move(task));
  if (absl::IsResourceExhausted(started)) {
    Log(LogSeverity::kWarning, Concat("a background task runs on its caller's thread: ", started.message()));
  }
  InlineExecutor().Schedule(std::move(task));
}

bool LazyThreadPool::RunningInThisThread() const {
  const ThreadPool* const pool = pool_.load(std::memory_order_acquire);
  return pool != nullptr && pool->RunningInThisThread();
}

void LazyThreadPool::Finish() {
  {
    const MutexLock lock(mutex_);
    finished_ = true;
  }
  delete pool_.load(std::memory_order_relaxed);
  pool_.store(nullptr, std::memory_order_relaxed);
}

}  // namespace stockade::base_internal
