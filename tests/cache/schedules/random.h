#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_RANDOM_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_RANDOM_H_

#include <cstdint>

namespace stockade::testing {

// SplitMix64: seeds that follow each other give streams that have nothing in common.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) { Next(); }

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // From 0 to `bound` - 1.
  int Below(int bound) { return static_cast<int>(Next() % static_cast<uint64_t>(bound)); }
  int Between(int low, int high) { return low + Below(high - low + 1); }
  bool OneIn(int count) { return Below(count) == 0; }

 private:
  uint64_t state_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_RANDOM_H_
