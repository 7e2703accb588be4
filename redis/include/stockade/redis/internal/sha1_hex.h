#ifndef STOCKADE_REDIS_INTERNAL_SHA1_HEX_H_
#define STOCKADE_REDIS_INTERNAL_SHA1_HEX_H_

#include <string>
#include <string_view>

#include "stockade/base/export.h"

namespace stockade::redis_internal {

// The SHA-1 of `text` in 40 hexadecimal digits, as redis.sha1hex() computes it in a script. O(size of text).
STOCKADE_EXPORT std::string Sha1Hex(std::string_view text);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_INTERNAL_SHA1_HEX_H_
