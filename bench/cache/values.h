#ifndef STOCKADE_BENCH_CACHE_VALUES_H_
#define STOCKADE_BENCH_CACHE_VALUES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace stockade::bench {

// A cache's value of so many bytes: a multiple of 8.
template <size_t kBytes>
using ValueOf = std::conditional_t<kBytes == 8, uint64_t, std::array<uint64_t, kBytes / 8>>;

inline uint64_t FirstWord(uint64_t value) { return value; }
template <size_t kWords>
uint64_t FirstWord(const std::array<uint64_t, kWords>& value) {
  return value[0];
}

template <typename Value>
uint64_t FirstWord(const std::shared_ptr<const Value>& value) {
  return FirstWord(*value);
}

template <typename Value>
Value MakeValue(uint64_t key) {
  if constexpr (std::is_same_v<Value, uint64_t>) {
    return key;
  } else {
    return {key};
  }
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_CACHE_VALUES_H_
