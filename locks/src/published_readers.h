#ifndef STOCKADE_LOCKS_SRC_PUBLISHED_READERS_H_
#define STOCKADE_LOCKS_SRC_PUBLISHED_READERS_H_

#include <cstdint>

#include "stockade/locks/steady_deadline.h"

namespace stockade::internal {

// The writer's side of reads by publication (see Hold). `key` is the lock's address, `entry` its place in each table.
// All are O(records), a cache line each. None counts the calling thread.

// Whether some thread has published itself: a look without a fence, which may miss one that is about to.
bool SeesPublishedReader(uintptr_t key, uint32_t entry);

// The same with the fence: if the lock's kBias was cleared before, by a sequentially consistent step, and stays clear,
// then false says that there is no published reader, and what they did happens before this returns. True may also be a
// reader that is about to find out that it is not in.
bool HasPublishedReader(uintptr_t key, uint32_t entry);

// Under the same conditions waits until there is none: true; or until `deadline`: false.
bool DrainPublishedReaders(uintptr_t key, uint32_t entry, SteadyDeadline deadline);

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_PUBLISHED_READERS_H_
