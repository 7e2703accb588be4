#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_MYSQL_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_MYSQL_H_

#include <functional>
#include <memory>
#include <string>

#include "distributed_locks/load_rows.h"

namespace stockade::bench {

// A lock that is acquired and released by hand-written statements, with a connection of libmariadb. For one thread at a
// time.
class PlainMySqlLock {
 public:
  virtual ~PlainMySqlLock() = default;
  virtual void Acquire() = 0;  // Blocks until it is had.
  virtual void Release() = 0;
};

// `sockets`: the folder of the server's socket.
using MakePlainMySqlLock =
    std::function<std::unique_ptr<PlainMySqlLock>(const std::string& sockets, const std::string& name)>;

// Sends the statements that MySqlLockService sends for a reentrant lock with the default options. If the lock is taken,
// it retries as often as MySqlLockService does.
std::unique_ptr<PlainMySqlLock> MakeTableLock(const std::string& sockets, const std::string& name);

// GET_LOCK() and RELEASE_LOCK(): kept in the server's memory while the connection lives, without a lease or a fencing
// token. A caller that waits, waits in the server.
std::unique_ptr<PlainMySqlLock> MakeNamedLock(const std::string& sockets, const std::string& name);

// With a connection for each thread.
LockRun RunOf(MakePlainMySqlLock make, std::string sockets);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_MYSQL_H_
