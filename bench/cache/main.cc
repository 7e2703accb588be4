#include "cache/rows.h"
#include "measure/bench_main.h"

int main(int argc, char** argv) {
  using namespace stockade::bench;
  return BenchMain(argc, argv, [](Suite& suite) {
    AddHitRows(suite);
    AddCallRows(suite);
    AddWriteRows(suite);
    AddLatencyRows(suite);
    AddRemovalRows(suite);
    AddMemoryRows(suite);
    AddPeerRows(suite);
    AddHitRatioRows(suite);
    AddBuildRows(suite);
  });
}
