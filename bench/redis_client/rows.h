#ifndef STOCKADE_BENCH_REDIS_CLIENT_ROWS_H_
#define STOCKADE_BENCH_REDIS_CLIENT_ROWS_H_

#include "harness/suite.h"

namespace stockade::bench {

void AddRedisClientRows(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_REDIS_CLIENT_ROWS_H_
