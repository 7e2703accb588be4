#ifndef STOCKADE_BENCH_HARNESS_STATS_H_
#define STOCKADE_BENCH_HARNESS_STATS_H_

#include <vector>

namespace stockade::bench {

// The middle value, or the mean of the two middle ones. `values` must not be empty (aborts). O(n).
double Median(std::vector<double> values);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_STATS_H_
