#ifndef STOCKADE_BENCH_LOCKS_ROWS_H_
#define STOCKADE_BENCH_LOCKS_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddMachineRow(Suite& suite);
void AddMutexRows(Suite& suite);
void AddReentryRows(Suite& suite);
void AddHoldRows(Suite& suite);
void AddHandoffRows(Suite& suite);
void AddFairnessRows(Suite& suite);
void AddSharedMutexRows(Suite& suite);
void AddMixRows(Suite& suite);
void AddRevocationRows(Suite& suite);
void AddMetricsRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LOCKS_ROWS_H_
