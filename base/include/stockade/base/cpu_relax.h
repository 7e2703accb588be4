#ifndef STOCKADE_BASE_CPU_RELAX_H_
#define STOCKADE_BASE_CPU_RELAX_H_

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// Tells the CPU that the thread spins, so that a sibling hyperthread gets the core's resources.
inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores.
#endif
}

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_CPU_RELAX_H_
