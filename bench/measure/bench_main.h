#ifndef STOCKADE_BENCH_MEASURE_BENCH_MAIN_H_
#define STOCKADE_BENCH_MEASURE_BENCH_MAIN_H_

#include <functional>

#include "harness/suite.h"

namespace stockade::bench {

// Runs the rows that the options select. Returns the exit status of the program: 0 if all of them ran, even if targets
// are missed; 2 for wrong options or a file that cannot be written; 3 if no row is selected.
int BenchMain(int argc, const char* const* argv, const std::function<void(Suite&)>& add_rows);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_MEASURE_BENCH_MAIN_H_
