#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_MYSQL_ROWS_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_MYSQL_ROWS_H_

#include <functional>
#include <memory>
#include <string>

#include "distributed_locks/our_locks.h"
#include "harness/suite.h"
#include "servers/disk_server.h"

namespace stockade::bench {

// Ours; the server's database `locks` then has the tables. `sockets`: the folder of its socket.
std::shared_ptr<OurLocks> OpenOurMySqlLocks(const std::string& sockets);

void AddMySqlWaitingRow(Suite& suite, const std::function<const DiskServer&()>& server);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_MYSQL_ROWS_H_
