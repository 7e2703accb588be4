#ifndef STOCKADE_BENCH_STAMPEDE_ROWS_H_
#define STOCKADE_BENCH_STAMPEDE_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddStampedeRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_STAMPEDE_ROWS_H_
