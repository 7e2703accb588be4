#ifndef STOCKADE_MYSQL_INTERNAL_MYSQL_REPLY_H_
#define STOCKADE_MYSQL_INTERNAL_MYSQL_REPLY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/mysql/internal/mysql_error.h"

namespace stockade::mysql_internal {

// A row as the server writes it; NULL is nullopt.
using MySqlRow = std::vector<std::optional<std::string>>;
using MySqlRows = std::vector<MySqlRow>;

// The number at a place of a row; `otherwise` if it is NULL or missing.
STOCKADE_EXPORT int64_t MySqlNumber(const MySqlRow& row, size_t place, int64_t otherwise = 0);
STOCKADE_EXPORT uint64_t MySqlUnsigned(const MySqlRow& row, size_t place, uint64_t otherwise = 0);

// The result of the statements of one packet. The server runs them one after another, up to the first that fails.
struct MySqlReply {
  absl::Status status = absl::OkStatus();
  unsigned error = 0;  // Of the server or of the connector; 0 if there is none, or the reason is not known.
  MySqlRemedy remedy = MySqlRemedy::kNone;
  // Not OK, and the server has not answered: it may have run the rest of the packet, or may still run it.
  bool unanswered = false;
  // One for each statement that ran, so the first that failed has the index rows_matched.size().
  std::vector<int64_t> rows_matched = {};
  std::vector<MySqlRows> results = {};  // One for each statement that returns rows.

  // The last result; empty if there is none.
  const MySqlRows& rows() const {
    static const MySqlRows& kNone = *new MySqlRows;
    return results.empty() ? kNone : results.back();
  }
};

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_INTERNAL_MYSQL_REPLY_H_
