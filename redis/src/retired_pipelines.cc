#include "retired_pipelines.h"

#include <algorithm>
#include <utility>

#include "now.h"
#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {

absl::Status RetiredPipelines::Refusal(std::string_view why) {
  return absl::UnavailableError(Concat(why, "; not sent"));
}

bool RetiredPipelines::Add(std::shared_ptr<Pipeline> pipeline, std::string why, Ending ending) {
  const MutexLock lock(mutex_);
  if (stopping_ || (!thread_.joinable() && !StartThread(thread_, [this] { Run(); }).ok())) return false;
  retired_.push_back({.pipeline = std::move(pipeline), .why = std::move(why), .ending = ending});
  changed_.NotifyAll();
  return true;
}

void RetiredPipelines::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

size_t RetiredPipelines::size() const {
  const MutexLock lock(mutex_);
  return retired_.size();
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
    RetireNew();
    if (retired_.empty()) {
      if (stopping_) return;
      changed_.Wait(mutex_);
      continue;
    }
    const auto next = std::min_element(retired_.begin(), retired_.end(),
                                       [](const Retired& a, const Retired& b) { return a.until < b.until; });
    if (!stopping_ && Now() < next->until) {
      changed_.WaitUntil(*Clock::System(), mutex_, next->until);
      continue;
    }
    {
      const MutexUnlock unlocked(mutex_);
      next->pipeline->Stop();
    }
    retired_.erase(next);
  }
}

void RetiredPipelines::RetireNew() {
  for (Retired& retired : retired_) {
    if (retired.until != Instant::InfiniteFuture()) continue;
    const bool at_once = retired.ending == Ending::kAtOnce;
    bool idle = false;
    {
      const MutexUnlock unlocked(mutex_);
      retired.pipeline->Retire(Refusal(retired.why));
      if (at_once) retired.pipeline->Drop(absl::UnavailableError(retired.why));
      idle = retired.pipeline->pending() == 0;
    }
    retired.until = at_once || idle ? Instant::InfinitePast() : Now() + kGrace;
  }
}

}  // namespace stockade::redis_internal
