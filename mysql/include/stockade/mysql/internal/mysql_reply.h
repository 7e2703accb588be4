#ifndef STOCKADE_MYSQL_INTERNAL_MYSQL_REPLY_H_
#define STOCKADE_MYSQL_INTERNAL_MYSQL_REPLY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "stockade/mysql/internal/mysql_error.h"

namespace stockade::mysql_internal {

// The result of the statements of one packet. The server runs them one after another, up to the first that fails.
struct MySqlReply {
  absl::Status status = absl::OkStatus();
  unsigned error = 0;  // Of the server or of the connector; 0 if there is none, or the reason is not known.
  MySqlRemedy remedy = MySqlRemedy::kNone;
  // Not OK, and the server has not answered: it may have run the rest of the packet, or may still run it.
  bool unanswered = false;
  // Of each statement that ran: the rows that it matched or returned. If `status` is OK there is one for each
  // statement; otherwise the first that failed has the index rows_matched.size().
  std::vector<int64_t> rows_matched = {};
};

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_INTERNAL_MYSQL_REPLY_H_
