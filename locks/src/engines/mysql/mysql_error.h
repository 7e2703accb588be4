#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_ERROR_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_ERROR_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace stockade::locks_internal {

// What to do about an error.
enum class MySqlRemedy : uint8_t {
  kNone,
  kRunAgain,   // The transaction was rolled back for another's sake: a deadlock, or a conflict between nodes.
  kRollBack,   // A row or table was locked for too long: the transaction is still open, and may be run again.
  kReconnect,  // This connection, or this server, cannot do it any more.
};

struct MySqlMeaning {
  absl::StatusCode code = absl::StatusCode::kInternal;
  MySqlRemedy remedy = MySqlRemedy::kNone;
};

// Of an error number of MySQL's, MariaDB's or their connectors'.
MySqlMeaning MeaningOfMySqlError(unsigned error);

// Whether the number is the connector's own: it has no answer of the server. 0: it does not even say why.
inline bool IsMySqlClientError(unsigned error) {
  return error == 0 || (error >= 2000 && error < 3000) || (error >= 5000 && error < 6000);
}

// "<doing what>: MySQL error 1146: Table ... doesn't exist".
absl::Status MySqlErrorStatus(unsigned error, std::string_view text);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_ERROR_H_
