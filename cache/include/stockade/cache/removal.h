#ifndef STOCKADE_CACHE_REMOVAL_H_
#define STOCKADE_CACHE_REMOVAL_H_

#include "stockade/base/export.h"

namespace stockade {

// The reason why a value left a cache.
enum class RemovalCause {
  kInvalidated,  // By key, by tag, with all others, or by UpdateThrough().
  kReplaced,     // By a newer value, or because a load found that there is no value any more.
  kExpired,      // Its time to live, or its idle_ttl, was over when it was replaced, requested or evicted.
  kSize,         // Evicted to make room.
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_REMOVAL_H_
