#ifndef STOCKADE_REDIS_KEY_SLOT_H_
#define STOCKADE_REDIS_KEY_SLOT_H_

#include <cstdint>
#include <string_view>

#include "stockade/base/export.h"

namespace stockade::redis_internal {

inline constexpr uint16_t kKeySlots = 16'384;

// The slot of a Redis Cluster that `key` is in: CRC-16/XMODEM, modulo kKeySlots, of what stands between the first '{'
// and the first '}' behind it, or of the whole key where there is no such pair or nothing in it. O(length).
STOCKADE_EXPORT uint16_t KeySlot(std::string_view key);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_KEY_SLOT_H_
