#include "common/http_head.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"

namespace examples {
namespace {

constexpr auto npos = std::string_view::npos;
constexpr std::string_view kLineEnd = "\r\n";

bool IsTokenByte(char byte) {
  return absl::ascii_isalnum(static_cast<unsigned char>(byte)) ||
         std::string_view("!#$%&'*+-.^_`|~").find(byte) != npos;
}

bool IsValueByte(char byte) { return byte == '\t' || !absl::ascii_iscntrl(static_cast<unsigned char>(byte)); }

std::string_view WithoutBlanks(std::string_view value) {
  const size_t first = value.find_first_not_of(" \t");
  if (first == npos) return {};
  return value.substr(first, value.find_last_not_of(" \t") + 1 - first);
}

}  // namespace

std::optional<httplib::Headers> ParseHeaders(std::string_view head) {
  httplib::Headers headers;
  size_t at = head.find('\n') + 1;
  for (size_t end; (end = head.find('\n', at)) != npos; at = end + 1) {
    std::string_view line = head.substr(at, end + 1 - at);
    if (line == kLineEnd) return headers;
    if (!line.ends_with(kLineEnd)) return std::nullopt;
    line.remove_suffix(kLineEnd.size());
    const size_t colon = line.find(':');
    if (colon == npos || colon == 0) return std::nullopt;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = WithoutBlanks(line.substr(colon + 1));
    if (!std::ranges::all_of(name, IsTokenByte) || !std::ranges::all_of(value, IsValueByte)) return std::nullopt;
    headers.emplace(name, value);
  }
  return std::nullopt;
}

}  // namespace examples
