#include "durable_notifier.h"

#include <utility>

#include "stockade/base/start_thread.h"

namespace stockade::inventory_internal {

absl::Status DurableNotifier::Start() {
  return StartThread(thread_, [this] { Run(); });
}

void DurableNotifier::Stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock own(mutex_);
    stopping_ = true;
  }
  settled_or_stopping_.NotifyOne();
  thread_.join();
}

void DurableNotifier::Add(uint64_t position, Done done) {
  const MutexLock own(mutex_);
  // Positions come nearly in order, so most go to the end.
  outstanding_.emplace_hint(outstanding_.end(), position, std::move(done));
}

void DurableNotifier::SetOutcome(uint64_t up_to, const absl::Status& outcome) {
  {
    const MutexLock own(mutex_);
    if (outstanding_.empty() || outstanding_.begin()->first > up_to) return;
    if (outcome.ok() && !settled_.empty() && settled_.back().outcome.ok()) {
      settled_.back().up_to = up_to;
    } else {
      settled_.push_back({up_to, outcome});
    }
  }
  settled_or_stopping_.NotifyOne();
}

void DurableNotifier::Run() {
  std::vector<std::pair<Done, absl::Status>> calls;
  const MutexLock own(mutex_);
  while (true) {
    while (settled_.empty() && !stopping_) settled_or_stopping_.Wait(mutex_);
    if (settled_.empty()) return;
    for (const Settled& settled : settled_) {
      const auto end = outstanding_.upper_bound(settled.up_to);
      for (auto next = outstanding_.begin(); next != end; ++next) {
        calls.emplace_back(std::move(next->second), settled.outcome);
      }
      outstanding_.erase(outstanding_.begin(), end);
    }
    settled_.clear();
    const MutexUnlock unlocked(mutex_);
    for (auto& [done, outcome] : calls) done(std::move(outcome));
    calls.clear();
  }
}

}  // namespace stockade::inventory_internal
