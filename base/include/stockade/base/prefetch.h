#ifndef STOCKADE_BASE_PREFETCH_H_
#define STOCKADE_BASE_PREFETCH_H_

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// Requests the cache line of `address` in exclusive state. A load followed by a write would transfer it twice from
// another core.
inline void PrefetchForWrite(const void* address) {
#if defined(__x86_64__)
  // Without -mprfchw the builtin requests a shared copy. Every x86-64 CPU executes this instruction or ignores it.
  asm("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_PREFETCH_H_
