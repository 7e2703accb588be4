#ifndef STOCKADE_BASE_FUTEX_H_
#define STOCKADE_BASE_FUTEX_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "stockade/base/export.h"
#include "stockade/base/instant.h"

namespace stockade::internal {

// futex(2) within one process, which std::atomic::wait() cannot do with a deadline.

// Sleeps while `word` is `expected`; the kernel compares and falls asleep in one step. Returns false where `deadline`
// has passed, else true: woken, `word` was another value, or for no reason at all. time_point::max() waits for ever.
// No memory ordering: load `word` again.
STOCKADE_EXPORT bool FutexWait(const std::atomic<uint32_t>& word, uint32_t expected,
                               std::chrono::steady_clock::time_point deadline);

// What to pass as `deadline` in order to sleep until the system's clock, which says `now`, passes `until`; a day at the
// most, so that no sum overflows. The steady clock stands still while the machine is suspended.
STOCKADE_EXPORT std::chrono::steady_clock::time_point SteadyAt(Instant until, Instant now);

// Wakes up to `count` threads that sleep on `word`. Looks only at its address, which may be of freed memory.
STOCKADE_EXPORT void FutexWake(const std::atomic<uint32_t>& word, int count);

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_FUTEX_H_
