#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_MYSQL_SESSION_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_MYSQL_SESSION_H_

#include <mysql.h>

#include <memory>
#include <string>
#include <string_view>

namespace stockade::bench {

// A connection of libmariadb. What fails aborts, but a deadlock's victim is sent again, all of it. For one thread at a
// time.
class MySqlSession {
 public:
  // `sockets`: the folder of the server's socket.
  explicit MySqlSession(const std::string& sockets);

  // Sends statements in one packet, and waits until all are done. The first column of the last row of all; "" where
  // none has rows.
  std::string Ask(std::string_view statements);

 private:
  const std::unique_ptr<MYSQL, void (*)(MYSQL*)> session_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_MYSQL_SESSION_H_
