#include "key_slot.h"

#include <array>
#include <cstddef>

namespace stockade::redis_internal {
namespace {

// What a byte at the high end of the register adds, for each value of it.
constexpr std::array<uint16_t, 256> kCrcTable = [] {
  constexpr uint16_t kPolynomial = 0x1021;
  std::array<uint16_t, 256> table = {};
  for (size_t byte = 0; byte < table.size(); ++byte) {
    auto crc = static_cast<uint16_t>(byte << 8);
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<uint16_t>((crc << 1) ^ ((crc & 0x8000) != 0 ? kPolynomial : 0));
    }
    table[byte] = crc;
  }
  return table;
}();

constexpr uint16_t Crc16(std::string_view bytes) {
  uint16_t crc = 0;
  for (const char byte : bytes) {
    crc = static_cast<uint16_t>((crc << 8) ^ kCrcTable[(crc >> 8) ^ static_cast<uint8_t>(byte)]);
  }
  return crc;
}

static_assert(Crc16("123456789") == 0x31C3);  // The check value that CRC-16/XMODEM is known by.

std::string_view HashedPart(std::string_view key) {
  const size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

}  // namespace

uint16_t KeySlot(std::string_view key) { return Crc16(HashedPart(key)) % kKeySlots; }

}  // namespace stockade::redis_internal
