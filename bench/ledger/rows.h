#ifndef STOCKADE_BENCH_LEDGER_ROWS_H_
#define STOCKADE_BENCH_LEDGER_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddLedgerRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_ROWS_H_
