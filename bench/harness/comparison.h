#ifndef STOCKADE_BENCH_HARNESS_COMPARISON_H_
#define STOCKADE_BENCH_HARNESS_COMPARISON_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"

namespace stockade::bench {

// How much one repetition does.
struct Scale {
  bool quick = false;                            // A smoke test: its figures mean nothing.
  absl::Duration span = absl::Milliseconds(80);  // Of a timed run.

  int64_t Sized(int64_t quick_size, int64_t full_size) const { return quick ? quick_size : full_size; }
};

// One repetition: does the work and returns the figure, in the comparison's unit. What cannot be done aborts.
using Measurement = std::function<double()>;

// The two that run beside each other. What they work on lives in the closures and dies with them.
struct Contestants {
  Measurement ours;
  Measurement peer;
};

enum class Better { kLower, kHigher };

// What is claimed: of the ratio ours / peer's, or of our figure itself or the difference ours - peer's, in the
// comparison's unit.
struct Target {
  enum class Of { kNothing, kRatio, kValue, kDifference };
  enum class Bound { kAtMost, kAtLeast, kExactly };

  Of of = Of::kNothing;
  Bound bound = Bound::kAtMost;
  double limit = 0;

  static Target None() { return {}; }
  static Target RatioAtMost(double limit) { return {Of::kRatio, Bound::kAtMost, limit}; }
  static Target RatioAtLeast(double limit) { return {Of::kRatio, Bound::kAtLeast, limit}; }
  static Target ValueAtMost(double limit) { return {Of::kValue, Bound::kAtMost, limit}; }
  static Target ValueAtLeast(double limit) { return {Of::kValue, Bound::kAtLeast, limit}; }
  static Target DifferenceAtMost(double limit) { return {Of::kDifference, Bound::kAtMost, limit}; }
  static Target DifferenceAtLeast(double limit) { return {Of::kDifference, Bound::kAtLeast, limit}; }
  static Target ValueExactly(double limit) { return {Of::kValue, Bound::kExactly, limit}; }
};

// One row of the table.
struct Comparison {
  std::string name;  // "what, under which conditions"; no two rows of an area share name and peer.
  std::string unit;
  std::string peer;
  Better better = Better::kLower;
  Target target = {};  // A bound from above where lower is better, from below where higher is.
  // Builds what both work on; called only for rows that run, so it may be slow.
  std::function<Contestants(const Scale& scale)> prepare = {};
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_COMPARISON_H_
