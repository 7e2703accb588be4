#ifndef STOCKADE_BASE_PERCENT_CODING_H_
#define STOCKADE_BASE_PERCENT_CODING_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace stockade::internal {

// Where the first '%' stands that two hexadecimal digits do not follow.
std::optional<size_t> FindBadEscape(std::string_view text);

// `text` with each %XX as the byte it stands for. `text` has no bad escape.
std::string PercentDecode(std::string_view text);

// `text` with every byte as %XX but letters, digits, '-', '.', '_', '~' and those of `plain`.
std::string PercentEncode(std::string_view text, std::string_view plain = {});

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_PERCENT_CODING_H_
