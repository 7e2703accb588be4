#include "stockade/mysql/internal/mysql_reply.h"

#include "absl/strings/numbers.h"

namespace stockade::mysql_internal {

int64_t MySqlNumber(const MySqlRow& row, size_t place, int64_t otherwise) {
  int64_t number = 0;
  if (place >= row.size() || !row[place] || !absl::SimpleAtoi(*row[place], &number)) return otherwise;
  return number;
}

}  // namespace stockade::mysql_internal
