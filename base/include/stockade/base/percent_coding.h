#ifndef STOCKADE_BASE_PERCENT_CODING_H_
#define STOCKADE_BASE_PERCENT_CODING_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "stockade/base/export.h"

namespace stockade::internal {

// Where the first '%' stands that two hexadecimal digits do not follow.
STOCKADE_EXPORT std::optional<size_t> FindBadEscape(std::string_view text);

// `text` with each %XX as the byte it stands for. `text` has no bad escape.
STOCKADE_EXPORT std::string PercentDecode(std::string_view text);

// `text` with every byte as %XX but letters, digits, '-', '.', '_', '~' and those of `plain`.
STOCKADE_EXPORT std::string PercentEncode(std::string_view text, std::string_view plain = {});

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_PERCENT_CODING_H_
