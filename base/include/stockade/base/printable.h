#ifndef STOCKADE_BASE_PRINTABLE_H_
#define STOCKADE_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/export.h"

namespace stockade::internal {

// Text that came from outside (a server, an exception, a caller's data), for a log line or a message.
//
// Whether `text` is UTF-8 without control characters (C0, DEL, C1) and without line separators (U+2028, U+2029): it
// stays on its line, moves no cursor, and is a legal value of a metric's label. True for an empty text.
STOCKADE_EXPORT bool IsPrintable(std::string_view text);

// `text` with every byte that is not printable in the sense above as \n, \r, \t or \xHH. Backslashes stay as they are.
// A result of more than `max_bytes` is cut after a whole character, and " [cut: 921600 bytes in all]" follows, which
// counts the bytes of `text`. O(min(text, max_bytes)).
STOCKADE_EXPORT std::string Printable(std::string_view text, size_t max_bytes = std::string_view::npos);

// The rule for every name that users give and that metrics or messages show. `what` says whose name it is:
// "LoadingCache: name". InvalidArgument, "<what> is empty" or "<what> 'caf\xe9' is not printable UTF-8".
STOCKADE_EXPORT absl::Status CheckName(std::string_view what, std::string_view name);

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_PRINTABLE_H_
