#ifndef STOCKADE_CACHE_CACHE_CODEC_H_
#define STOCKADE_CACHE_CACHE_CODEC_H_

#include <charconv>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/strings.h"

namespace stockade {

// The bytes of the keys and values of a cache with a tier (LoadingCacheOptions::tier). Only std::string, bool and
// integers have default functions; for other types all functions of that type must be set.
//
// A value that a decoder refuses, or for which it throws, is loaded again and overwritten. A key or a value that an
// encoder refuses is loaded by each process on its own. encode_key must refuse a key always or never: an invalidation
// of a key that it refuses reaches this process only, and the others keep what they have loaded for at most
// max_staleness. An error that may pass must be thrown; then an invalidation is one of all. All functions may be
// invoked by several threads at once.
template <typename Key, typename Value>
struct CacheCodec {
  // Names the format of the values, and must be changed with it: processes with different ids do not read each other's
  // values, but invalidate them. 1 to 32 printable characters without braces and spaces. May be empty if both types
  // have default functions.
  std::string id = {};
  // Equal keys must have equal bytes, in all processes. Larger keys than 1,024 bytes are not shared: each process loads
  // them on its own, and invalidates them in all others.
  std::function<absl::Status(const Key&, std::string*)> encode_key = {};
  std::function<absl::StatusOr<Key>(std::string_view)> decode_key = {};
  std::function<absl::Status(const Value&, std::string*)> encode_value = {};
  std::function<absl::StatusOr<Value>(std::string_view)> decode_value = {};
};

namespace cache_internal {

// Decimal, so that a person can read and write the keys.
template <typename T>
concept PlainlyCoded = std::same_as<T, std::string> || std::integral<T>;

template <PlainlyCoded T>
absl::Status EncodePlainly(const T& object, std::string* bytes) {
  if constexpr (std::same_as<T, std::string>) {
    *bytes = object;
  } else {
    *bytes = base_internal::Concat(static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(object));
  }
  return absl::OkStatus();
}

template <PlainlyCoded T>
absl::StatusOr<T> DecodePlainly(std::string_view bytes) {
  if constexpr (std::same_as<T, std::string>) {
    return std::string(bytes);
  } else {
    std::conditional_t<std::same_as<T, bool>, uint8_t, T> number{};
    const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), number);
    if (error != std::errc() || end != bytes.data() + bytes.size() || (std::same_as<T, bool> && number > 1)) {
      return absl::InvalidArgumentError(base_internal::Concat("not a number of this type: '", bytes, "'"));
    }
    return static_cast<T>(number);
  }
}

// Calls `encode`, or the default function that the type has.
template <typename T>
absl::Status Encode(const std::function<absl::Status(const T&, std::string*)>& encode, const T& object,
                    std::string* bytes) {
  if constexpr (PlainlyCoded<T>) {
    if (!encode) return EncodePlainly(object, bytes);
  }
  return encode(object, bytes);
}
template <typename T>
absl::StatusOr<T> Decode(const std::function<absl::StatusOr<T>(std::string_view)>& decode, std::string_view bytes) {
  if constexpr (PlainlyCoded<T>) {
    if (!decode) return DecodePlainly<T>(bytes);
  }
  return decode(bytes);
}

// The name of the format. Nothing: a function is missing. Empty: it must be set.
template <typename Key, typename Value>
std::optional<std::string_view> IdOf(const CacheCodec<Key, Value>& codec) {
  const bool codes_keys = PlainlyCoded<Key> || (codec.encode_key && codec.decode_key);
  const bool codes_values = PlainlyCoded<Value> || (codec.encode_value && codec.decode_value);
  if (!codes_keys || !codes_values) return std::nullopt;
  if (PlainlyCoded<Key> && PlainlyCoded<Value> && codec.id.empty()) {
    return std::same_as<Value, std::string> ? "bytes" : "decimal";
  }
  return codec.id;
}

}  // namespace cache_internal

}  // namespace stockade

#endif  // STOCKADE_CACHE_CACHE_CODEC_H_
