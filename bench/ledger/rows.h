#ifndef STOCKADE_BENCH_LEDGER_ROWS_H_
#define STOCKADE_BENCH_LEDGER_ROWS_H_

#include <span>

#include "harness/suite.h"
#include "ledger/peers.h"

namespace stockade::bench {

void AddOrderRows(Suite& suite, std::span<const Peer> peers);
void AddExpiryRows(Suite& suite);
void AddRestartRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_ROWS_H_
