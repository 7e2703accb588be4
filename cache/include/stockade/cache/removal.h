#ifndef STOCKADE_CACHE_REMOVAL_H_
#define STOCKADE_CACHE_REMOVAL_H_

#include "stockade/base/export.h"

namespace stockade {

// Why a value left a cache.
enum class RemovalCause {
  kInvalidated,  // By key, by tag, with all others, or by UpdateThrough().
  kReplaced,     // By a newer value, or because a load found that there is none any more.
  kExpired,      // Its time was over when it was replaced, asked for or evicted.
  kSize,         // Evicted to make room.
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_REMOVAL_H_
