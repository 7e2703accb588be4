#include "stockade/base/printable.h"

#include <cstdint>

#include "stockade/base/strings.h"

namespace stockade::base_internal {
namespace {

constexpr size_t kMaxShownNameBytes = 100;

struct Utf8Lead {
  size_t bytes;       // Of the character; 0: no character begins with this byte.
  uint32_t bits;      // Of the code point.
  uint32_t smallest;  // Anything below has a shorter form, which is the only legal one.
};

Utf8Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, byte, 0};
  if ((byte & 0xe0) == 0xc0) return {2, byte & 0x1fu, 0x80};
  if ((byte & 0xf0) == 0xe0) return {3, byte & 0x0fu, 0x800};
  if ((byte & 0xf8) == 0xf0) return {4, byte & 0x07u, 0x10000};
  return {0, 0, 0};
}

bool IsPrintableCodePoint(uint32_t point) {
  const bool is_control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool is_surrogate = point >= 0xd800 && point < 0xe000;
  const bool ends_line = point == 0x2028 || point == 0x2029;
  return !is_control && !is_surrogate && !ends_line && point < 0x110000;
}

// The bytes of the printable character that `text`, which is not empty, begins with. 0: it begins with none.
size_t PrintablePrefix(std::string_view text) {
  const Utf8Lead lead = LeadOf(static_cast<uint8_t>(text.front()));
  if (lead.bytes == 0 || lead.bytes > text.size()) return 0;
  uint32_t point = lead.bits;
  for (size_t i = 1; i < lead.bytes; ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte & 0x3fu);
  }
  return point >= lead.smallest && IsPrintableCodePoint(point) ? lead.bytes : 0;
}

std::string Escape(char byte) {
  switch (byte) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return Concat("\\x", absl::Hex(static_cast<uint8_t>(byte), absl::kZeroPad2));
  }
}

}  // namespace

bool IsPrintable(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = PrintablePrefix(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string shown;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t bytes = PrintablePrefix(rest);
    const std::string piece = bytes > 0 ? std::string(rest.substr(0, bytes)) : Escape(rest.front());
    if (piece.size() > max_bytes - shown.size()) {
      return Concat(shown, " [cut: ", text.size(), " bytes in all]");
    }
    shown += piece;
    rest.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return shown;
}

absl::Status CheckName(std::string_view what, std::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError(Concat(what, " is empty"));
  if (IsPrintable(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Concat(what, " '", Printable(name, kMaxShownNameBytes), "' is not printable UTF-8"));
}

}  // namespace stockade::base_internal
