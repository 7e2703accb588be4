#ifndef STOCKADE_BENCH_FLEET_ROWS_H_
#define STOCKADE_BENCH_FLEET_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddFleetRows(Suite& suite);
void AddFleetCrowdRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_ROWS_H_
