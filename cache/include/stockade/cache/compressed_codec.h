#ifndef STOCKADE_CACHE_COMPRESSED_CODEC_H_
#define STOCKADE_CACHE_COMPRESSED_CODEC_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/base/strings.h"
#include "stockade/cache/cache_codec.h"

namespace stockade {

// When and how CompressedCodec() compresses.
struct STOCKADE_EXPORT CompressionOptions {
  // Of zlib: 1 is the fastest, 9 the smallest.
  int level = 1;
  // Smaller values stay as they are, as do those that would not become smaller.
  size_t min_bytes = 512;
  // The most bytes of a value before it is compressed, at most 2^30. A larger one is not shared: the encoder says
  // OutOfRange, and the process keeps it in memory. A record that claims to be larger is damaged.
  size_t max_decoded_bytes = size_t{64} << 20;

  // InvalidArgument names the option and its value.
  absl::Status Validate() const;
};

namespace cache_internal {

// A byte that says whether the rest is compressed; if so, 4 bytes with the length before, the lowest first, and a
// stream of zlib (RFC 1950), which has a checksum.
STOCKADE_EXPORT absl::Status Compress(std::string_view plain, const CompressionOptions& options, std::string* bytes);
// InvalidArgument: it is not that. Allocates what the stream can become, and no more.
STOCKADE_EXPORT absl::StatusOr<std::string> Decompress(std::string_view bytes, const CompressionOptions& options);

}  // namespace cache_internal

// `codec`, whose values are compressed by zlib. Its id gets the suffix "+zlib", so that processes without compression
// do not read these values: 27 bytes of an id are left. Keys stay as they are.
//
//   .codec = *CompressedCodec(ProductCodec())
//
// InvalidArgument: an option is invalid, or a function or the id is missing.
template <typename Key, typename Value>
absl::StatusOr<CacheCodec<Key, Value>> CompressedCodec(CacheCodec<Key, Value> codec = {},
                                                       const CompressionOptions& options = {}) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  const std::optional<std::string_view> id = cache_internal::IdOf(codec);
  if (!id.has_value() || id->empty()) {
    return absl::InvalidArgumentError("CompressedCodec: the codec lacks a function or its id");
  }
  codec.id = base_internal::Concat(*id, "+zlib");
  codec.encode_value = [encode = std::move(codec.encode_value), options](const Value& value, std::string* bytes) {
    std::string plain;
    if (absl::Status encoded = cache_internal::Encode(encode, value, &plain); !encoded.ok()) return encoded;
    return cache_internal::Compress(plain, options, bytes);
  };
  codec.decode_value = [decode = std::move(codec.decode_value),
                        options](std::string_view bytes) -> absl::StatusOr<Value> {
    const absl::StatusOr<std::string> plain = cache_internal::Decompress(bytes, options);
    if (!plain.ok()) return plain.status();
    return cache_internal::Decode(decode, *plain);
  };
  return codec;
}

}  // namespace stockade

#endif  // STOCKADE_CACHE_COMPRESSED_CODEC_H_
