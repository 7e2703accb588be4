#ifndef STOCKADE_EXAMPLES_COMMON_MARIADB_CLIENT_H_
#define STOCKADE_EXAMPLES_COMMON_MARIADB_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

struct st_mysql;  // MYSQL of the connector.

namespace examples {

// A row as the server writes it; NULL is "".
using MariaDbRow = std::vector<std::string>;
using MariaDbRows = std::vector<MariaDbRow>;

// A connection to the server at a Unix socket, as root without a password. One thread at a time.
class MariaDbClient {
 public:
  // `database` may be empty.
  static absl::StatusOr<std::unique_ptr<MariaDbClient>> Connect(const std::string& socket, const std::string& database);
  ~MariaDbClient();
  MariaDbClient(const MariaDbClient&) = delete;
  MariaDbClient& operator=(const MariaDbClient&) = delete;

  // Runs statements, separated by ';', and returns the rows of all of them. Unavailable: the server has not answered,
  // and the connection is of no use any more. Internal: it has refused a statement.
  absl::StatusOr<MariaDbRows> Run(std::string_view statements);
  // The only number of the only row.
  absl::StatusOr<int64_t> QueryInt(std::string_view statement);

  // Of the last INSERT into a table that numbers its rows.
  int64_t inserted_id() const;
  // The connection has failed.
  bool broken() const { return broken_; }

 private:
  explicit MariaDbClient(st_mysql* session) : session_(session) {}
  absl::Status Failed();

  st_mysql* const session_;
  bool broken_ = false;
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_MARIADB_CLIENT_H_
