#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_URL_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_URL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "stockade/locks/mysql_lock_service.h"

namespace stockade::locks_internal {

// The address of the database. Everything is decoded.
struct MySqlUrl {
  std::string host = {};    // Empty if there is a socket.
  uint16_t port = 3306;     // The port of `host`.
  std::string socket = {};  // A UNIX socket's path.
  std::string username = {};
  std::string password = {};
  std::string database = {};

  // "127.0.0.1:3306", "[::1]:3306", "/run/mysqld.sock".
  std::string Endpoint() const;
};

// MySqlLockService::Connect() says what it reads. What it says of options goes to `options`. O(length).
absl::StatusOr<MySqlUrl> ParseMySqlUrl(std::string_view url, MySqlLockOptions& options);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_URL_H_
