#ifndef STOCKADE_EXAMPLES_COMMON_PARSE_NUMBER_H_
#define STOCKADE_EXAMPLES_COMMON_PARSE_NUMBER_H_

#include <charconv>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace examples {

// Parses the value of an option: a whole number from `least` to `most`, without blanks, a plus sign or a unit.
// InvalidArgument, with a line for the user, if `text` is anything else.
template <typename Int>
absl::Status ParseNumber(const std::string& option, const std::string& text, Int least, Int most, Int& value) {
  const char* const end = text.data() + text.size();
  Int parsed = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc{} || rest != end || parsed < least || parsed > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " takes a whole number from ", least, " to ", most, ", not '", text, "'"));
  }
  value = parsed;
  return absl::OkStatus();
}

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_PARSE_NUMBER_H_
