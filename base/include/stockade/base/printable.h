#ifndef STOCKADE_BASE_PRINTABLE_H_
#define STOCKADE_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// Helpers for text from outside (a server, an exception, a caller's data) that goes into a log line or a message.
//
// Whether `text` is UTF-8 without control characters (C0, DEL, C1) and line separators (U+2028, U+2029). Such text
// stays on one line, does not move the cursor, and is a legal value of a metric label. True for an empty text.
STOCKADE_EXPORT bool IsPrintable(std::string_view text);

// `text` with every byte that is not printable in this sense replaced by \n, \r, \t or \xHH. Backslashes are kept. A
// result of more than `max_bytes` is truncated after a whole character, followed by " [cut: 921600 bytes in all]" with
// the size of `text`. O(min(text, max_bytes)).
STOCKADE_EXPORT std::string Printable(std::string_view text, size_t max_bytes = std::string_view::npos);

// Checks a name that users choose and that metrics or messages show. `what` names the object and the field:
// "LoadingCache: name". InvalidArgument, "<what> is empty" or "<what> 'caf\xe9' is not printable UTF-8".
STOCKADE_EXPORT absl::Status CheckName(std::string_view what, std::string_view name);

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_PRINTABLE_H_
