#include "retired_pipelines.h"

#include <utility>

#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"

namespace stockade::redis_internal {

void RetiredPipelines::Add(std::shared_ptr<Pipeline> pipeline, const absl::Status& why) {
  pipeline->Retire(why);
  {
    const MutexLock lock(mutex_);
    if (!stopping_ && (thread_.joinable() || StartThread(thread_, [this] { Run(); }).ok())) {
      retired_.push_back({.pipeline = std::move(pipeline), .until = Clock::System()->Now() + kGrace});
      changed_.NotifyAll();
      return;
    }
  }
  pipeline->Stop();
}

void RetiredPipelines::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

size_t RetiredPipelines::pending() const {
  const MutexLock lock(mutex_);
  size_t sum = 0;
  for (const Retired& retired : retired_) sum += retired.pipeline->pending();
  return sum;
}

void RetiredPipelines::Run() {
  const MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && retired_.empty()) changed_.Wait(mutex_);
    if (retired_.empty()) return;
    while (!stopping_ && changed_.WaitUntil(*Clock::System(), mutex_, retired_.front().until)) {
    }
    const std::shared_ptr<Pipeline> pipeline = retired_.front().pipeline;
    {
      const MutexUnlock unlocked(mutex_);
      pipeline->Stop();
    }
    retired_.pop_front();
  }
}

}  // namespace stockade::redis_internal
