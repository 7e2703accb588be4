#include "referee.h"

#include <algorithm>

namespace flash_sale {

using stockade::Instant;

uint64_t Referee::Begin() {
  const std::lock_guard lock(mutex_);
  const Instant now = clock_->Now();
  opened_ = std::min(opened_, now);
  CountReturns(now);
  --certain_;
  ++events_;
  if (certain_ < 0) last_short_ = events_;
  return events_;
}

void Referee::End(uint64_t begun, Answer answer) {
  const std::lock_guard lock(mutex_);
  const Instant now = clock_->Now();
  if (answer == Answer::kOrder) {
    ++figures_.orders;
    if (figures_.refusals == 0) {
      ++orders_before_refusal_;
      last_order_ = now;
    }
    return;  // certain_ has it since Begin().
  }
  ++certain_;
  ++events_;
  if (answer != Answer::kRefused) return;
  ++figures_.refusals;
  if (last_short_ < begun) ++figures_.wrong_refusals;
}

void Referee::Returned() {
  const std::lock_guard lock(mutex_);
  ++certain_;
}

void Referee::Abandoned(absl::Duration ttl) {
  const std::lock_guard lock(mutex_);
  returns_.push_back(clock_->Now() + ttl + kGrace);
}

SaleFigures Referee::Figures() const {
  const std::lock_guard lock(mutex_);
  SaleFigures figures = figures_;
  const double seconds = orders_before_refusal_ > 0 ? absl::ToDoubleSeconds(last_order_ - opened_) : 0;
  figures.orders_per_second = seconds > 0 ? static_cast<double>(orders_before_refusal_) / seconds : 0;
  return figures;
}

void Referee::CountReturns(Instant now) {
  while (!returns_.empty() && returns_.front() <= now) {
    returns_.pop_front();
    ++certain_;
  }
}

}  // namespace flash_sale
