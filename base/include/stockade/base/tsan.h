#ifndef STOCKADE_BASE_TSAN_H_
#define STOCKADE_BASE_TSAN_H_

#include "stockade/base/floors.h"

// For programs that are built with -fsanitize=thread and link a library that is not. ThreadSanitizer does not see what
// the library's atomic operations order, so headers say it. If the library is built with -fsanitize=thread too
// (STOCKADE_TSAN), they say nothing, so that its tests show what its own operations order.
#ifdef __has_feature
#if __has_feature(thread_sanitizer) && !defined(STOCKADE_TSAN)
#define STOCKADE_ANNOTATES_TSAN
#endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(STOCKADE_TSAN)
#define STOCKADE_ANNOTATES_TSAN
#endif

#ifdef STOCKADE_ANNOTATES_TSAN
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace stockade::base_internal {

// All that a thread did before TsanRelease() comes before all that another does after TsanAcquire() of this address.
inline void TsanRelease([[maybe_unused]] const void* address) {
#ifdef STOCKADE_ANNOTATES_TSAN
  __tsan_release(const_cast<void*>(address));
#endif
}
inline void TsanAcquire([[maybe_unused]] const void* address) {
#ifdef STOCKADE_ANNOTATES_TSAN
  __tsan_acquire(const_cast<void*>(address));
#endif
}
// If `taken`. Returns it.
inline bool TsanAcquireIf(bool taken, const void* address) {
  if (taken) TsanAcquire(address);
  return taken;
}

}  // namespace stockade::base_internal

#undef STOCKADE_ANNOTATES_TSAN

#endif  // STOCKADE_BASE_TSAN_H_
