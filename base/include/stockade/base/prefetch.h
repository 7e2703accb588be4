#ifndef STOCKADE_BASE_PREFETCH_H_
#define STOCKADE_BASE_PREFETCH_H_

#include "stockade/base/export.h"

namespace stockade::internal {

// Asks for the cache line of `address` to be written soon: one transfer from another core, where a load and then a
// write would be two.
inline void PrefetchForWrite(const void* address) {
#if defined(__x86_64__)
  // What the builtin is without -mprfchw asks for a copy to read. All of x86-64 knows the instruction or skips it.
  asm("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_PREFETCH_H_
