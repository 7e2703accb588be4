#ifndef STOCKADE_INVENTORY_REQUEST_FINGERPRINT_H_
#define STOCKADE_INVENTORY_REQUEST_FINGERPRINT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// SipHash-2-4 (Aumasson and Bernstein, 2012): 64 bits of a request id that are the same in every run under the same
// key, and that nobody without the key can aim at. 20 ns for a UUID. Thread-safe.
class RequestFingerprint {
 public:
  explicit RequestFingerprint(FingerprintKey key) : key_(key) {}

  static FingerprintKey RandomKey() {
    std::random_device random;
    const auto word = [&] { return uint64_t{random()} << 32 | random(); };
    const uint64_t first = word();
    return {first, word()};
  }

  uint64_t operator()(std::string_view text) const {
    uint64_t v0 = key_[0] ^ 0x736f6d6570736575;
    uint64_t v1 = key_[1] ^ 0x646f72616e646f6d;
    uint64_t v2 = key_[0] ^ 0x6c7967656e657261;
    uint64_t v3 = key_[1] ^ 0x7465646279746573;
    const auto round = [&] {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    };
    const auto absorb = [&](uint64_t word) {
      v3 ^= word;
      round();
      round();
      v0 ^= word;
    };
    const size_t whole = text.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) absorb(Word(text.data() + i, 8));
    absorb(Word(text.data() + whole, text.size() - whole) | uint64_t{text.size()} << 56);
    v2 ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }

 private:
  // Little-endian, whatever the machine.
  static uint64_t Word(const char* bytes, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, size);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    return word;
  }

  FingerprintKey key_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_REQUEST_FINGERPRINT_H_
