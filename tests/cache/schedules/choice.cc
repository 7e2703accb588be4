#include "cache/schedules/choice.h"

#include <algorithm>

namespace stockade::testing {
namespace {

// Longer schedules meet their last points without a change.
constexpr int kPointsWithChanges = 120;
constexpr int kMostChanges = 4;

}  // namespace

Choice::Choice(uint64_t seed) : random_(seed) {
  constexpr Way kWays[] = {Way::kEven, Way::kSticky, Way::kPriorities, Way::kPriorities};
  way_ = kWays[random_.Below(4)];
  spurious_ = random_.OneIn(4);
  clock_share_ = random_.Between(4, 24);
  stay_ = random_.Between(2, 8);
  for (int changes = random_.Between(0, kMostChanges); changes > 0; --changes) {
    change_at_.push_back(random_.Below(kPointsWithChanges));
  }
}

int Choice::Pick(std::span<const int> ready, bool clock, int current) {
  ++point_;
  if (way_ == Way::kPriorities) return PickByPriority(ready, clock, current);
  if (clock && random_.OneIn(clock_share_)) return kClock;
  const bool can_stay = std::find(ready.begin(), ready.end(), current) != ready.end();
  if (way_ == Way::kSticky && can_stay && !random_.OneIn(stay_)) return current;
  return ready[static_cast<size_t>(random_.Below(static_cast<int>(ready.size())))];
}

int Choice::PickByPriority(std::span<const int> ready, bool clock, int current) {
  // Each fall goes below all falls before it.
  if (std::find(change_at_.begin(), change_at_.end(), point_) != change_at_.end()) PriorityOf(current) = -point_;
  int picked = ready.front();
  for (const int who : ready) {
    if (PriorityOf(who) > PriorityOf(picked)) picked = who;
  }
  if (!clock || PriorityOf(kClock) <= PriorityOf(picked)) return picked;
  // Time that always went first would leave no wait without its time-out.
  PriorityOf(kClock) = -point_;
  return kClock;
}

int64_t& Choice::PriorityOf(int who) {
  const auto index = static_cast<size_t>(who + 1);
  if (index >= priorities_.size()) priorities_.resize(index + 1);
  if (priorities_[index] == 0) priorities_[index] = 1 + random_.Below(1'000'000);
  return priorities_[index];
}

}  // namespace stockade::testing
