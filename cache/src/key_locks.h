#ifndef STOCKADE_CACHE_SRC_KEY_LOCKS_H_
#define STOCKADE_CACHE_SRC_KEY_LOCKS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "stockade/cache/internal/cache_core.h"
#include "stockade/locks/keyed_shared_mutex.h"
#include "update_frame.h"

namespace stockade::cache_internal {

// By hash, because the release of a lock must not run a Hash or Eq, which may throw. Keys with the same hash share a
// lock.
class KeyLocks : public KeyedSharedMutex<uint64_t> {};

// A read lock of strict mode, or none.
struct CacheCore::ReadHold {
  std::optional<KeyLocks::Guard> guard;
  std::optional<StrictReadFrame> frame;
};

class CacheCore::LockGuards : public std::vector<KeyLocks::Guard> {};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_KEY_LOCKS_H_
