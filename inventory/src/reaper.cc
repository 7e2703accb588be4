#include "reaper.h"

#include <vector>

namespace stockade::internal {

Reaper::Reaper(Clock* clock, std::function<void(OrderRecord&)> expire)
    : clock_(clock), expire_(std::move(expire)), thread_([this] { Run(); }) {}

Reaper::~Reaper() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Reaper::Add(OrderRecord& record) {
  bool earliest;
  {
    std::lock_guard lock(mutex_);
    running_.emplace(record.deadline, &record);
    earliest = running_.begin()->second == &record;
  }
  if (earliest) wake_.notify_all();
}

void Reaper::Remove(OrderRecord& record) {
  std::lock_guard lock(mutex_);
  running_.erase({record.deadline, &record});
}

void Reaper::Run() {
  std::unique_lock lock(mutex_);
  std::vector<OrderRecord*> due;
  while (!stopping_) {
    const Instant now = clock_->Now();
    while (!running_.empty() && running_.begin()->first <= now) {
      due.push_back(running_.begin()->second);
      running_.erase(running_.begin());
    }
    if (due.empty()) {
      clock_->WaitUntil(wake_, lock, running_.empty() ? Instant::InfiniteFuture() : running_.begin()->first);
      continue;
    }
    lock.unlock();
    for (OrderRecord* record : due) expire_(*record);
    due.clear();
    lock.lock();
  }
}

}  // namespace stockade::internal
