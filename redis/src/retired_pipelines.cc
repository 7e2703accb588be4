#include "retired_pipelines.h"

#include <utility>

#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"

namespace stockade::internal {

void RetiredPipelines::Add(std::shared_ptr<Pipeline> pipeline, const absl::Status& why) {
  pipeline->Retire(why);
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_ && (thread_.joinable() || StartThread(thread_, [this] { Run(); }).ok())) {
      retired_.push_back({.pipeline = std::move(pipeline), .until = Clock::System()->Now() + kGrace});
      changed_.notify_all();
      return;
    }
  }
  pipeline->Stop();
}

void RetiredPipelines::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

size_t RetiredPipelines::pending() const {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const Retired& retired : retired_) sum += retired.pipeline->pending();
  return sum;
}

void RetiredPipelines::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !retired_.empty(); });
    if (retired_.empty()) return;
    while (!stopping_ && Clock::System()->WaitUntil(changed_, lock, retired_.front().until)) {
    }
    const std::shared_ptr<Pipeline> pipeline = retired_.front().pipeline;
    lock.unlock();
    pipeline->Stop();
    lock.lock();
    retired_.pop_front();
  }
}

}  // namespace stockade::internal
