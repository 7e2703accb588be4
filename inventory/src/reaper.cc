#include "reaper.h"

#include <algorithm>
#include <utility>

#include "stockade/base/start_thread.h"

namespace stockade::internal {

Reaper::Reaper(Clock* clock, const OrderBook& orders, Expire expire)
    : clock_(clock), orders_(orders), expire_(std::move(expire)) {}

absl::Status Reaper::Start() {
  return StartThread(thread_, [this] { Run(); });
}

Reaper::~Reaper() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
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
    absl::Duration pause = absl::ZeroDuration();
    const Instant now = clock_->Now();
    if (EarliestDue() <= now) {
      const std::optional<absl::Duration> wanted = expire_();
      if (!wanted.has_value()) return;
      pause = *wanted;
    }
    const bool pauses = pause > absl::ZeroDuration();
    const Instant until = pauses ? now + pause : EarliestDue();
    lock.lock();
    if (woken_ && !pauses) continue;
    asleep_until_.store(until, std::memory_order_seq_cst);
    while ((pauses || !woken_) && !stopping_ && clock_->Now() < until) clock_->WaitUntil(wake_, lock, until);
  }
}

}  // namespace stockade::internal
