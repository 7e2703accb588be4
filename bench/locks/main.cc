#include "locks/peers.h"
#include "locks/rows.h"
#include "measure/bench_main.h"

int main(int argc, char** argv) {
  return stockade::bench::BenchMain(argc, argv, [](stockade::bench::Suite& suite) {
    stockade::bench::AddMachineRow(suite);
    stockade::bench::AddMutexRows(suite);
    stockade::bench::AddReentryRows(suite);
    stockade::bench::AddHoldRows(suite);
    stockade::bench::AddHandoffRows(suite);
    stockade::bench::AddFairnessRows(suite);
    stockade::bench::AddSharedMutexRows(suite);
    stockade::bench::AddMixRows(suite);
    stockade::bench::AddRevocationRows(suite);
    stockade::bench::AddMetricsRows(suite);
    stockade::bench::NoteMissingPeers(suite);
  });
}
