#ifndef STOCKADE_LOCKS_LOCK_SESSION_H_
#define STOCKADE_LOCKS_LOCK_SESSION_H_

#include <atomic>
#include <cstdint>

#include "stockade/base/instant.h"

namespace stockade {

// A session of an engine. All its holds end together, in addition to the end of their leases, if the engine has not
// confirmed in time that it keeps the session. Extend() and End() are called by one thread at a time, ValidUntil() by
// any thread.
class LockSession {
 public:
  // Valid until then, unless extended.
  explicit LockSession(Instant valid_until) : valid_until_(valid_until.nanoseconds()) {}

  // The time, on the local clock, until which the engine certainly keeps the holds of the session.
  Instant ValidUntil() const { return Instant::FromNanoseconds(valid_until_.load(std::memory_order_relaxed)); }

  // Returns false if the session was already over at `now`. It then stays over, because another thread may have seen
  // that. Never moves the end closer.
  bool Extend(Instant until, Instant now) {
    const Instant before = ValidUntil();
    if (now >= before) return false;
    if (until > before) valid_until_.store(until.nanoseconds(), std::memory_order_relaxed);
    return true;
  }
  void End() { valid_until_.store(Instant::InfinitePast().nanoseconds(), std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> valid_until_;  // Relaxed: it says something about time, not about memory.
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_SESSION_H_
