#include "stockade/base/percent_coding.h"

#include "absl/strings/ascii.h"

namespace stockade::base_internal {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

int HexValue(char digit) { return static_cast<int>(kHexDigits.find(absl::ascii_toupper(digit))); }

}  // namespace

std::optional<size_t> FindBadEscape(std::string_view text) {
  for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 3)) {
    if (at + 2 >= text.size() || !absl::ascii_isxdigit(text[at + 1]) || !absl::ascii_isxdigit(text[at + 2])) return at;
  }
  return std::nullopt;
}

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '%') {
      decoded += static_cast<char>(HexValue(text[at + 1]) * 16 + HexValue(text[at + 2]));
      at += 2;
    } else {
      decoded += text[at];
    }
  }
  return decoded;
}

std::string PercentEncode(std::string_view text, std::string_view plain) {
  constexpr std::string_view kUnreservedMarks = "-._~";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char byte : text) {
    if (absl::ascii_isalnum(byte) || kUnreservedMarks.find(byte) != std::string_view::npos ||
        plain.find(byte) != std::string_view::npos) {
      encoded += byte;
    } else {
      const auto value = static_cast<unsigned char>(byte);
      encoded += {'%', kHexDigits[value >> 4], kHexDigits[value & 15]};
    }
  }
  return encoded;
}

}  // namespace stockade::base_internal
