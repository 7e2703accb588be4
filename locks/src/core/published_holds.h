#ifndef STOCKADE_LOCKS_SRC_CORE_PUBLISHED_HOLDS_H_
#define STOCKADE_LOCKS_SRC_CORE_PUBLISHED_HOLDS_H_

#include <cstdint>

#include "stockade/locks/internal/steady_deadline.h"
#include "stockade/locks/internal/thread_record.h"

namespace stockade::locks_internal {

// The side of those who look for threads that have published themselves (see Hold). `key` is the lock's address,
// `entry` its place in each table. A `record` narrows the search to one; null: it is O(records), a cache line each.
// They allocate nothing.

// Whether some thread but that of `except` (or null) has published itself: a look without a fence, which may miss one
// that is about to.
bool SeesPublished(uintptr_t key, uint32_t entry, ThreadRecord* record, const ThreadRecord* except);

// The same with the fence, and without the calling thread. If publishing was forbidden before, by a sequentially
// consistent step of the word, and stays so, then false says that nobody is in that way, and what they did happens
// before this returns. True may also be a thread that is about to find out that it is not in.
bool HasPublished(uintptr_t key, uint32_t entry, ThreadRecord* record);

// Under the same conditions waits until there is none: true; or until `deadline`: false.
bool DrainPublished(uintptr_t key, uint32_t entry, ThreadRecord* record, SteadyDeadline deadline);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_CORE_PUBLISHED_HOLDS_H_
