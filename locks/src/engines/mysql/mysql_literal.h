#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LITERAL_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LITERAL_H_

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {

// Bytes as SQL takes them whatever they are, and whatever the connection's characters: X'6f6b'.
inline std::string MySqlLiteral(std::string_view bytes) {
  return Concat("X'", absl::BytesToHexString(AbslView(bytes)), "'");
}

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LITERAL_H_
