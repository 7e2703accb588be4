#ifndef STOCKADE_BASE_ASYMMETRIC_FENCE_H_
#define STOCKADE_BASE_ASYMMETRIC_FENCE_H_

#include <atomic>

#include "stockade/base/export.h"

namespace stockade::internal {

// Order between a store and a later load (Dekker's pattern) where one side is hot and the other rare:
//
//   hot:   LightStore(mine, v);  if (theirs.load(seq_cst) ...)
//   rare:  theirs.store(v, seq_cst);  HeavyFence();  if (mine.load(seq_cst) ...)
//
// At least one of the two sees the other's store. With membarrier(2) the light side is a plain store and a word to the
// compiler, and the heavy side interrupts the cores that run threads of this process, so that each of them has been
// through a full fence: 0.4 to 20 us. Where the kernel refuses that, all four accesses are sequentially consistent,
// which forbids the same outcome; and so they are for ThreadSanitizer, which knows nothing of membarrier. (C++ proposal
// P1202 describes the pair; folly's AsymmetricThreadFence and liburcu do the same.)
//
// Each thread calls InitAsymmetricFence() before its first LightStore(). It settles, once in the process, which of the
// two ways is taken; so no thread is ever on the light side of one way while another is on the heavy side of the other.
STOCKADE_EXPORT void InitAsymmetricFence();

// Aborts if membarrier(2), having worked once, is refused: a filter for system calls was installed too late.
STOCKADE_EXPORT void HeavyFence();

namespace asymmetric_fence_detail {
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
#endif
// Written once, by the first InitAsymmetricFence(), which happens before whatever a thread does after its own.
STOCKADE_EXPORT extern constinit bool by_membarrier;
}  // namespace asymmetric_fence_detail

// LightStore() for a caller that has seen InlineLightStoreWorks(): spares it the question which way was taken. Also a
// release store.
template <typename T>
inline void InlineLightStore(std::atomic<T>& target, T value) {
  if constexpr (asymmetric_fence_detail::kThreadSanitizer) {
    target.store(value, std::memory_order_seq_cst);
  } else {
    target.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // The compiler keeps the order; the core need not.
  }
}
inline bool InlineLightStoreWorks() {
  return asymmetric_fence_detail::kThreadSanitizer || asymmetric_fence_detail::by_membarrier;
}

// Also a release store.
template <typename T>
inline void LightStore(std::atomic<T>& target, T value) {
  if (InlineLightStoreWorks()) [[likely]] {
    InlineLightStore(target, value);
  } else {
    target.store(value, std::memory_order_seq_cst);
  }
}

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_ASYMMETRIC_FENCE_H_
