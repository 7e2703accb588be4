#ifndef STOCKADE_BENCH_FLEET_PEER_ROWS_H_
#define STOCKADE_BENCH_FLEET_PEER_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddFleetPeerRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_PEER_ROWS_H_
