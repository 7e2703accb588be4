#include "durable_notifier.h"

#include <utility>
#include <vector>

namespace stockade::internal {

void DurableNotifier::Start() {
  thread_ = std::thread([this] { Run(); });
}

void DurableNotifier::Stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard own(mutex_);
    stopping_ = true;
  }
  due_or_stopping_.notify_one();
  thread_.join();
}

void DurableNotifier::Reach(uint64_t durable) {
  bool due;
  {
    std::lock_guard own(mutex_);
    durable_ = durable;
    due = Due();
  }
  if (due) due_or_stopping_.notify_one();
}

void DurableNotifier::Fail(absl::Status failure) {
  {
    std::lock_guard own(mutex_);
    failure_ = std::move(failure);
  }
  due_or_stopping_.notify_one();
}

void DurableNotifier::Notify(uint64_t position, Done done) {
  absl::Status outcome;
  {
    std::lock_guard own(mutex_);
    if (!Known(position)) {
      // Positions come nearly in order, so most go to the end.
      outstanding_.emplace_hint(outstanding_.end(), position, std::move(done));
      return;
    }
    if (position > durable_) outcome = failure_;
  }
  done(std::move(outcome));
}

void DurableNotifier::Run() {
  std::vector<std::pair<Done, absl::Status>> calls;
  std::unique_lock own(mutex_);
  while (true) {
    due_or_stopping_.wait(own, [this] { return Due() || stopping_; });
    if (!Due()) return;
    const auto end = failure_.ok() ? outstanding_.upper_bound(durable_) : outstanding_.end();
    for (auto next = outstanding_.begin(); next != end; ++next) {
      calls.emplace_back(std::move(next->second), next->first <= durable_ ? absl::OkStatus() : failure_);
    }
    outstanding_.erase(outstanding_.begin(), end);
    own.unlock();
    for (auto& [done, outcome] : calls) done(std::move(outcome));
    calls.clear();
    own.lock();
  }
}

}  // namespace stockade::internal
