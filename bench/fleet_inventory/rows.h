#ifndef STOCKADE_BENCH_FLEET_INVENTORY_ROWS_H_
#define STOCKADE_BENCH_FLEET_INVENTORY_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddFleetInventoryRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_INVENTORY_ROWS_H_
