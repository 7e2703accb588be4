#ifndef STOCKADE_BASE_FUTEX_H_
#define STOCKADE_BASE_FUTEX_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "stockade/base/export.h"
#include "stockade/base/floors.h"
#include "stockade/base/instant.h"

namespace stockade::base_internal {

// futex(2) within one process. std::atomic::wait() has no deadline.

inline constexpr uint32_t kAllFutexBits = ~uint32_t{0};

// Sleeps while `word` equals `expected`; the kernel does the comparison and the start of the sleep as one atomic step.
// Returns false if `deadline` has passed. Returns true after a wake-up, if `word` had another value, or spuriously.
// time_point::max() means no deadline. Has no memory ordering: callers must load `word` again.
// Only a wake-up that has one of `bits` ends the sleep. `bits` must not be 0.
STOCKADE_EXPORT bool FutexWait(const std::atomic<uint32_t>& word, uint32_t expected,
                               std::chrono::steady_clock::time_point deadline, uint32_t bits = kAllFutexBits);

// The `deadline` to pass in order to sleep until the system clock, which reads `now`, passes `until`. At most a day
// ahead, so that the sum cannot overflow. The steady clock stops while the machine is suspended.
STOCKADE_EXPORT std::chrono::steady_clock::time_point SteadyAt(Instant until, Instant now);

// Wakes up to `count` threads that sleep on `word` with one of `bits`, which must not be 0. Uses only the address, so
// the memory may already be freed.
STOCKADE_EXPORT void FutexWake(const std::atomic<uint32_t>& word, int count, uint32_t bits = kAllFutexBits);

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_FUTEX_H_
