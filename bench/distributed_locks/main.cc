#include "distributed_locks/rows.h"

int main(int argc, char** argv) {
  return stockade::bench::BenchMain(argc, argv, [](stockade::bench::Suite& suite) {
    stockade::bench::AddScriptRows(suite);
    stockade::bench::AddRedissonRows(suite);
  });
}
