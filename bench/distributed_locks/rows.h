#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_ROWS_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

// Beside the same scripts sent by others.
void AddScriptRows(Suite& suite);
// Beside Redisson, in a JVM of its own.
void AddRedissonRows(Suite& suite);
// Beside ZooKeeper's C client, and beside libmariadb. Each is there where its engine has been built.
void AddZooKeeperRows(Suite& suite);
void AddMySqlRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_ROWS_H_
