#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_REPLY_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_REPLY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mysql_error.h"

namespace stockade::locks_internal {

// A row as the server writes it; none: NULL.
using MySqlRow = std::vector<std::optional<std::string>>;
using MySqlRows = std::vector<MySqlRow>;

// A number at a place of a row; `otherwise` where it is NULL or is not there.
int64_t MySqlNumber(const MySqlRow& row, size_t place, int64_t otherwise = 0);

// What came of the statements of one packet, which the server runs one after another, up to the first that fails.
struct MySqlReply {
  absl::Status status = absl::OkStatus();
  MySqlRemedy remedy = MySqlRemedy::kNone;
  // Not OK, and not the server's word: it may run the rest of it, or may have run it.
  bool unanswered = false;
  std::vector<int64_t> rows_matched = {};  // Of each statement that ran.
  MySqlRows rows = {};                     // Of the last that gave some.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_REPLY_H_
