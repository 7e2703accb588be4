#ifndef STOCKADE_BENCH_CACHE_ROWS_H_
#define STOCKADE_BENCH_CACHE_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddBuildRows(Suite& suite);
void AddCallRows(Suite& suite);
void AddHitRatioRows(Suite& suite);
void AddHitRows(Suite& suite);
void AddLatencyRows(Suite& suite);
void AddMemoryRows(Suite& suite);
void AddPeerRows(Suite& suite);
void AddRemovalRows(Suite& suite);
void AddWriteRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_CACHE_ROWS_H_
