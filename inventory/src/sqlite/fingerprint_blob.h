#ifndef STOCKADE_INVENTORY_SQLITE_FINGERPRINT_BLOB_H_
#define STOCKADE_INVENTORY_SQLITE_FINGERPRINT_BLOB_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stockade::inventory_internal {

// 64-bit words as the column forgotten.fingerprints keeps them: 8 bytes each, little-endian.
inline std::string ToBlob(std::span<const uint64_t> words) {
  std::string blob;
  blob.reserve(words.size() * 8);
  for (const uint64_t word : words) {
    for (int shift = 0; shift < 64; shift += 8) blob.push_back(static_cast<char>(word >> shift));
  }
  return blob;
}

// Adds those in `blob`, whose size is a multiple of 8, to `words`.
inline void AddFromBlob(std::string_view blob, std::vector<uint64_t>& words) {
  for (; blob.size() >= 8; blob.remove_prefix(8)) {
    uint64_t word = 0;
    for (size_t i = 8; i-- > 0;) word = word << 8 | static_cast<unsigned char>(blob[i]);
    words.push_back(word);
  }
}

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_FINGERPRINT_BLOB_H_
