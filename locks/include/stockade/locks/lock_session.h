#ifndef STOCKADE_LOCKS_LOCK_SESSION_H_
#define STOCKADE_LOCKS_LOCK_SESSION_H_

#include <atomic>
#include <cstdint>

#include "stockade/base/instant.h"

namespace stockade {

// What the holds of an engine end with besides their leases: all at once, where the engine has not confirmed in time
// that it keeps them. Extend() and End() are for one thread at a time; ValidUntil() for any.
class LockSession {
 public:
  // Good until then, unless extended.
  explicit LockSession(Instant valid_until) : valid_until_(valid_until.nanoseconds()) {}

  // Until when, by our clock, the engine is sure to keep what was acquired in it.
  Instant ValidUntil() const { return Instant::FromNanoseconds(valid_until_.load(std::memory_order_relaxed)); }

  // False: it was over at `now` already, and stays so: somebody may have seen it. Never brings the end closer.
  bool Extend(Instant until, Instant now) {
    const Instant before = ValidUntil();
    if (now >= before) return false;
    if (until > before) valid_until_.store(until.nanoseconds(), std::memory_order_relaxed);
    return true;
  }
  void End() { valid_until_.store(Instant::InfinitePast().nanoseconds(), std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> valid_until_;  // Relaxed: what is concluded from it is about time, not about memory.
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_SESSION_H_
