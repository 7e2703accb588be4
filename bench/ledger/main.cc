#include <vector>

#include "ledger/peers.h"
#include "ledger/rows.h"
#include "measure/bench_main.h"

int main(int argc, char** argv) {
  return stockade::bench::BenchMain(argc, argv, [](stockade::bench::Suite& suite) {
    const std::vector<stockade::bench::Peer> peers = stockade::bench::FindPeers(suite);
    stockade::bench::AddOrderRows(suite, peers);
    stockade::bench::AddExpiryRows(suite);
    stockade::bench::AddRestartRows(suite);
  });
}
