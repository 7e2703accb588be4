#include "reaper.h"

#include <algorithm>
#include <utility>

#include "stockade/base/start_thread.h"

namespace stockade::inventory_internal {

Reaper::Reaper(Clock* clock, const OrderBook& orders, Expire expire)
    : clock_(clock), orders_(orders), expire_(std::move(expire)) {}

absl::Status Reaper::Start() {
  return StartThread(thread_, [this] { Run(); });
}

Reaper::~Reaper() {
  [this] {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }();
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Reaper::WakeBy(Instant due) {
  if (due >= asleep_until_.load(std::memory_order_seq_cst)) return;
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  wake_.NotifyAll();
}

Instant Reaper::EarliestDue() const {
  Instant earliest = Instant::InfiniteFuture();
  for (size_t i = 0; i < orders_.stripe_count(); ++i) earliest = std::min(earliest, orders_.EarliestDue(i));
  return earliest;
}

void Reaper::Run() {
  const MutexLock lock(mutex_);
  while (!stopping_) {
    woken_ = false;
    asleep_until_.store(Instant::InfiniteFuture(), std::memory_order_seq_cst);
    bool pauses = false;
    Instant until;
    {
      const MutexUnlock unlocked(mutex_);
      const Instant now = clock_->Now();
      std::optional<absl::Duration> pause = absl::ZeroDuration();
      if (EarliestDue() <= now) pause = expire_();
      if (!pause.has_value()) return;
      pauses = *pause > absl::ZeroDuration();
      until = pauses ? now + *pause : EarliestDue();
    }
    if (woken_ && !pauses) continue;
    asleep_until_.store(until, std::memory_order_seq_cst);
    while ((pauses || !woken_) && !stopping_ && clock_->Now() < until) wake_.WaitUntil(*clock_, mutex_, until);
  }
}

}  // namespace stockade::inventory_internal
