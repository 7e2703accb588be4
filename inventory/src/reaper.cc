#include "reaper.h"

#include <algorithm>
#include <utility>

namespace stockade::internal {

Reaper::Reaper(Clock* clock, const OrderBook& orders, std::function<bool(size_t)> expire)
    : clock_(clock), orders_(orders), expire_(std::move(expire)), thread_([this] { Run(); }) {}

Reaper::~Reaper() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Reaper::WakeBy(Instant due) {
  if (due >= asleep_until_.load(std::memory_order_seq_cst)) return;
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_all();
}

Instant Reaper::EarliestDue() const {
  Instant earliest = Instant::InfiniteFuture();
  for (size_t i = 0; i < orders_.stripe_count(); ++i) earliest = std::min(earliest, orders_.EarliestDue(i));
  return earliest;
}

void Reaper::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    woken_ = false;
    asleep_until_.store(Instant::InfiniteFuture(), std::memory_order_seq_cst);
    lock.unlock();
    const Instant now = clock_->Now();
    for (size_t i = 0; i < orders_.stripe_count(); ++i) {
      if (orders_.EarliestDue(i) <= now && !expire_(i)) return;
    }
    const Instant until = EarliestDue();
    lock.lock();
    if (woken_) continue;
    asleep_until_.store(until, std::memory_order_seq_cst);
    while (!woken_ && !stopping_ && clock_->Now() < until) clock_->WaitUntil(wake_, lock, until);
  }
}

}  // namespace stockade::internal
