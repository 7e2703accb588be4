#ifndef STOCKADE_BENCH_METRICS_ROWS_H_
#define STOCKADE_BENCH_METRICS_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddCountingRows(Suite& suite);
void AddFastPathRows(Suite& suite);
void AddScrapeRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_METRICS_ROWS_H_
