#ifndef STOCKADE_BASE_PERCENT_CODING_H_
#define STOCKADE_BASE_PERCENT_CODING_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// The position of the first '%' that is not followed by two hexadecimal digits.
STOCKADE_EXPORT std::optional<size_t> FindBadEscape(std::string_view text);

// `text` with each %XX replaced by the byte that it encodes. `text` must have no bad escape.
STOCKADE_EXPORT std::string PercentDecode(std::string_view text);

// `text` with every byte encoded as %XX, except letters, digits, '-', '.', '_', '~' and the bytes of `plain`.
STOCKADE_EXPORT std::string PercentEncode(std::string_view text, std::string_view plain = {});

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_PERCENT_CODING_H_
