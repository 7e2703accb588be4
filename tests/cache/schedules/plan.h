#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_PLAN_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_PLAN_H_

#include <cstdint>
#include <string>

#include "cache/schedules/model.h"

namespace stockade::testing {

inline constexpr int64_t kUnit = 1'000;  // Of virtual time, in nanoseconds.

// What a seed's schedules are sure to have; the rest is drawn.
enum class Family { kPlain, kExpiry, kStale, kRevalidate, kRefresh, kExecutor, kBatch, kBound, kTimeout };
inline constexpr int kFamilies = 9;
inline Family FamilyOf(uint64_t seed) { return static_cast<Family>(seed % kFamilies); }

enum class Shape {
  kMixed,
  kStorm,   // Many invalidations, of few keys whose loads are long: what more than two loads of a key would come of.
  kNested,  // Each loader calls the cache, mostly to get another key: what circles come of.
};

// The cache and the load on it that a seed stands for.
struct Plan {
  explicit Plan(uint64_t seed);

  std::string Text() const;

  Rules rules;  // The cache's options, as the model needs them.
  int64_t max_weight = 100;
  bool pinned = false;   // Values are pinned by handles, not copied.
  int load_threads = 0;  // Of the load executor; 0: there is none.
  int refresh_threads = 1;
  bool batches = false;  // There is a batch loader.
  int keys = 2;
  int callers = 2;
  int calls = 4;        // Of each caller.
  int load_points = 1;  // In the middle of a load: the more, the more happens meanwhile.
  int nested_in = 5;    // One load in so many calls the cache.
  int failing_in = 5;   // One load in so many fails, and another finds nothing.
  Shape shape = Shape::kMixed;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_PLAN_H_
