#ifndef STOCKADE_CACHE_SRC_PART_H_
#define STOCKADE_CACHE_SRC_PART_H_

#include <optional>

#include "cache_call.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// One distinct key of a call for many keys.
struct CacheCore::Part {
  const KeyAt at;
  CacheCall call;
  std::optional<Answer> answer;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_PART_H_
