#include "measure/bench_main.h"
#include "metrics/rows.h"

int main(int argc, char** argv) {
  return stockade::bench::BenchMain(argc, argv, [](stockade::bench::Suite& suite) {
    stockade::bench::AddCountingRows(suite);
    stockade::bench::AddFastPathRows(suite);
    stockade::bench::AddScrapeRows(suite);
  });
}
