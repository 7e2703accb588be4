#ifndef STOCKADE_MYSQL_INTERNAL_MYSQL_LITERAL_H_
#define STOCKADE_MYSQL_INTERNAL_MYSQL_LITERAL_H_

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "stockade/base/strings.h"

namespace stockade::mysql_internal {

// Any bytes as an SQL literal that does not depend on the character set: X'6f6b'.
inline std::string MySqlLiteral(std::string_view bytes) {
  return Concat("X'", absl::BytesToHexString(AbslView(bytes)), "'");
}

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_INTERNAL_MYSQL_LITERAL_H_
