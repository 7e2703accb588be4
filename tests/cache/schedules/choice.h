#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_CHOICE_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_CHOICE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "cache/schedules/random.h"

namespace stockade::testing {

// Picks the thread that continues at a point of a schedule. The seed decides, in one of three ways, which it also
// draws:
// - evenly among all that can continue;
// - evenly, but a thread continues for a while;
// - by priorities that change at a few points (PCT: Burckhardt et al., ASPLOS 2010). This gives the orders that need a
//   thread to stand still for long, which even choices hardly ever give.
class Choice {
 public:
  // Picked instead of a thread: the time moves, if that would let a thread continue.
  static constexpr int kClock = -1;

  explicit Choice(uint64_t seed);

  // One of `ready`, which is not empty, or kClock where `clock` is set. `current`: who asks, ready or not.
  int Pick(std::span<const int> ready, bool clock, int current);
  // Whether a wait that begins now ends for no reason.
  bool WakeForNothing() { return spurious_ && random_.OneIn(8); }

 private:
  enum class Way { kEven, kSticky, kPriorities };

  int PickByPriority(std::span<const int> ready, bool clock, int current);
  // A thread's priority, or the clock's; drawn when first asked for.
  int64_t& PriorityOf(int who);

  Random random_;
  Way way_;
  bool spurious_;
  int clock_share_;                  // Even and sticky: the clock moves at one in so many points.
  int stay_;                         // Sticky: the current thread stays but at one in so many points.
  std::vector<int64_t> priorities_;  // [0]: the clock's; 0: not drawn yet. The highest goes on.
  std::vector<int64_t> change_at_;   // Priorities: the points at which who runs falls below all others.
  int64_t point_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_CHOICE_H_
