#ifndef STOCKADE_CACHE_SRC_STRICT_H_
#define STOCKADE_CACHE_SRC_STRICT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "flight_graph.h"
#include "stockade/cache/internal/cache_core.h"
#include "stockade/locks/keyed_shared_mutex.h"

namespace stockade::cache_internal {

// Marks that the calling thread is within a piece of work of one kind, in any cache, during the lifetime of this
// object.
template <typename Work>
class Frame {
 public:
  Frame() { ++depth; }
  ~Frame() { --depth; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  static bool InAny() { return depth > 0; }

 private:
  inline static constinit thread_local int depth = 0;
};

// The write of an update.
using UpdateFrame = Frame<struct Update>;
// A read in strict mode.
using StrictReadFrame = Frame<struct StrictRead>;

// Whether the calling thread runs a loader, a write or a strict read. Such a thread acquires no lock of a key, so that
// readers and writers cannot deadlock.
inline bool IsNested() {
  return LoaderFrame::Innermost() != nullptr || StrictReadFrame::InAny() || UpdateFrame::InAny();
}

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

#endif  // STOCKADE_CACHE_SRC_STRICT_H_
