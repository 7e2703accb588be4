#include "stockade/cache/compressed_codec.h"

#include <zlib.h>

#include <cstdint>

namespace stockade {
namespace {

using base_internal::Concat;

constexpr char kPlain = 0;
constexpr char kZlib = 1;
constexpr size_t kHeadBytes = 5;
constexpr size_t kMostBytes = size_t{1} << 30;
// No stream of zlib becomes longer than 1,032 times its length (https://zlib.net/zlib_tech.html).
constexpr size_t kMostRatio = 1032;

absl::Status Damaged(std::string_view what) {
  return absl::InvalidArgumentError(Concat("not a compressed value: ", what));
}

}  // namespace

absl::Status CompressionOptions::Validate() const {
  if (level < 1 || level > 9) {
    return absl::InvalidArgumentError(Concat("CompressionOptions: level = ", level, ": must be from 1 to 9"));
  }
  if (max_decoded_bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        Concat("CompressionOptions: max_decoded_bytes = ", max_decoded_bytes, ": must be at most 2^30"));
  }
  return absl::OkStatus();
}

absl::Status cache_internal::Compress(std::string_view plain, const CompressionOptions& options, std::string* bytes) {
  if (plain.size() > options.max_decoded_bytes) {
    return absl::OutOfRangeError(
        Concat("a value of ", plain.size(), " bytes is not shared: max_decoded_bytes = ", options.max_decoded_bytes));
  }
  if (plain.size() >= options.min_bytes) {
    uLongf length = compressBound(plain.size());
    bytes->resize(kHeadBytes + length);
    const int result = compress2(reinterpret_cast<Bytef*>(bytes->data() + kHeadBytes), &length,
                                 reinterpret_cast<const Bytef*>(plain.data()), plain.size(), options.level);
    if (result == Z_MEM_ERROR) return absl::ResourceExhaustedError("there is no memory to compress a value");
    if (result == Z_OK && kHeadBytes + length < 1 + plain.size()) {
      bytes->resize(kHeadBytes + length);
      (*bytes)[0] = kZlib;
      for (size_t i = 1; i < kHeadBytes; ++i) (*bytes)[i] = static_cast<char>(plain.size() >> (8 * (i - 1)));
      return absl::OkStatus();
    }
  }
  bytes->assign(1, kPlain);
  bytes->append(plain);
  return absl::OkStatus();
}

absl::StatusOr<std::string> cache_internal::Decompress(std::string_view bytes, const CompressionOptions& options) {
  if (bytes.empty()) return Damaged("it is empty");
  if (bytes.front() == kPlain) {
    if (bytes.size() - 1 > options.max_decoded_bytes) return Damaged("it is too long");
    return std::string(bytes.substr(1));
  }
  if (bytes.front() != kZlib) return Damaged("its first byte is unknown");
  if (bytes.size() < kHeadBytes) return Damaged("it is too short");
  size_t size = 0;
  for (size_t i = kHeadBytes - 1; i > 0; --i) size = size << 8 | static_cast<uint8_t>(bytes[i]);
  const std::string_view stream = bytes.substr(kHeadBytes);
  if (size > options.max_decoded_bytes || size / kMostRatio > stream.size()) return Damaged("its length is wrong");
  std::string plain(size, '\0');
  uLongf written = size;
  uLong read = stream.size();
  const int result = uncompress2(reinterpret_cast<Bytef*>(plain.data()), &written,
                                 reinterpret_cast<const Bytef*>(stream.data()), &read);
  if (result == Z_MEM_ERROR) return absl::ResourceExhaustedError("there is no memory to decompress a value");
  if (result != Z_OK || written != size || read != stream.size()) return Damaged("zlib refuses it");
  return plain;
}

}  // namespace stockade
