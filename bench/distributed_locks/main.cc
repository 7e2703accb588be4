#include "distributed_locks/rows.h"
#include "measure/bench_main.h"

int main(int argc, char** argv) {
  return stockade::bench::BenchMain(argc, argv, [](stockade::bench::Suite& suite) {
    stockade::bench::AddScriptRows(suite);
    stockade::bench::AddRedissonRows(suite);
#ifdef STOCKADE_BENCH_ZOOKEEPER
    stockade::bench::AddZooKeeperRows(suite);
#else
    suite.LeaveOut("ZooKeeper's rows", "its library was not found when this was built (Debian: libzookeeper-mt-dev)");
#endif
#ifdef STOCKADE_BENCH_MYSQL
    stockade::bench::AddMySqlRows(suite);
#else
    suite.LeaveOut("MySQL's rows", "its library was not found when this was built (Debian: libmariadb-dev)");
#endif
  });
}
