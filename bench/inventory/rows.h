#ifndef STOCKADE_BENCH_INVENTORY_ROWS_H_
#define STOCKADE_BENCH_INVENTORY_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddStockRows(Suite& suite);
void AddOrderRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_INVENTORY_ROWS_H_
