#ifndef STOCKADE_MYSQL_INTERNAL_MYSQL_ERROR_H_
#define STOCKADE_MYSQL_INTERNAL_MYSQL_ERROR_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::mysql_internal {

// The next step after an error.
enum class MySqlRemedy : uint8_t {
  kNone,
  kRunAgain,   // The server rolled the transaction back: a deadlock, or a conflict between nodes.
  kRollBack,   // A row or table was locked for too long. The transaction is still open, and may be run again.
  kReconnect,  // This connection, or this server, cannot do it any more.
};

struct MySqlMeaning {
  absl::StatusCode code = absl::StatusCode::kInternal;
  MySqlRemedy remedy = MySqlRemedy::kNone;
};

// The meaning of an error number of MySQL, MariaDB or their connectors.
MySqlMeaning MeaningOfMySqlError(unsigned error);

// Whether the number is the connector's own, so that there is no answer of the server. 0 is an unknown reason.
inline bool IsMySqlClientError(unsigned error) {
  return error == 0 || (error >= 2000 && error < 3000) || (error >= 5000 && error < 6000);
}

// "MySQL error 1146: Table ... doesn't exist".
absl::Status MySqlErrorStatus(unsigned error, std::string_view text);

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_INTERNAL_MYSQL_ERROR_H_
