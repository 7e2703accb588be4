#ifndef STOCKADE_CACHE_SRC_RUN_H_
#define STOCKADE_CACHE_SRC_RUN_H_

#include <stop_token>

#include "absl/time/time.h"
#include "stockade/base/instant.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// The caller that a loader runs for: the call whose thread runs it, or none.
struct CacheCore::Runner {
  Instant deadline = Instant::InfiniteFuture();
  std::stop_token stop = {};
};

// The result of a loader for one key.
struct CacheCore::Loaded {
  Answer answer;
  EntryOptions entry;
  absl::Duration took;
  Instant ended;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_RUN_H_
