#ifndef STOCKADE_CACHE_SRC_HUGE_PAGES_H_
#define STOCKADE_CACHE_SRC_HUGE_PAGES_H_

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace stockade::cache_internal {

inline constexpr size_t kHugePage = size_t{2} << 20;  // Bytes.

inline std::align_val_t AlignmentFor(size_t bytes) { return std::align_val_t{bytes >= kHugePage ? kHugePage : 64}; }

// Memory on whole cache lines, and on huge pages if it is large enough for one and the kernel has them. Throws
// std::bad_alloc.
inline void* AllocateHuge(size_t bytes) {
  void* const memory = ::operator new(bytes, AlignmentFor(bytes));
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // A wish: the result does not matter.
  return memory;
}
inline void FreeHuge(void* memory, size_t bytes) { ::operator delete(memory, AlignmentFor(bytes)); }

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_HUGE_PAGES_H_
