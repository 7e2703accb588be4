#include "stockade/mysql/internal/mysql_reply.h"

#include "absl/strings/numbers.h"

namespace stockade::mysql_internal {

namespace {

template <typename Number>
Number NumberAt(const MySqlRow& row, size_t place, Number otherwise) {
  Number number = 0;
  if (place >= row.size() || !row[place] || !absl::SimpleAtoi(*row[place], &number)) return otherwise;
  return number;
}

}  // namespace

int64_t MySqlNumber(const MySqlRow& row, size_t place, int64_t otherwise) { return NumberAt(row, place, otherwise); }

uint64_t MySqlUnsigned(const MySqlRow& row, size_t place, uint64_t otherwise) {
  return NumberAt(row, place, otherwise);
}

}  // namespace stockade::mysql_internal
