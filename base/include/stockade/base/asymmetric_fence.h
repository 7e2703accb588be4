#ifndef STOCKADE_BASE_ASYMMETRIC_FENCE_H_
#define STOCKADE_BASE_ASYMMETRIC_FENCE_H_

#include <atomic>

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// Orders a store before a later load (Dekker's pattern) for two threads, one of which takes its path often (hot) and
// the other seldom (rare):
//
//   hot:   LightStore(mine, v);  if (theirs.load(seq_cst) ...)
//   rare:  theirs.store(v, seq_cst);  HeavyFence();  if (mine.load(seq_cst) ...)
//
// At least one of the two threads sees the other's store. With membarrier(2), LightStore() is a plain store and a
// compiler barrier. HeavyFence() then interrupts the cores that run threads of this process, so that each of them
// executes a full fence; this takes 0.4 to 20 us. If the kernel refuses membarrier(2), all four accesses are
// sequentially consistent, which guarantees the same. ThreadSanitizer does not model membarrier(2), so its builds use
// sequentially consistent accesses, too. C++ proposal P1202 describes the pair; folly's AsymmetricThreadFence and
// liburcu implement it as well.
//
// Each thread calls InitAsymmetricFence() before its first LightStore(). The first call in the process chooses between
// membarrier(2) and sequentially consistent accesses, so two threads never use different methods.
STOCKADE_EXPORT void InitAsymmetricFence();

// Aborts if membarrier(2) worked when the process began and is refused now. A system call filter was then installed too
// late.
STOCKADE_EXPORT void HeavyFence();

namespace asymmetric_fence_detail {
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
#endif
// Written once, by the first InitAsymmetricFence(). That write happens before everything that a thread does after its
// own call.
STOCKADE_EXPORT extern constinit bool by_membarrier;
}  // namespace asymmetric_fence_detail

// LightStore() for callers that have checked InlineLightStoreWorks(): it does not check which method is used. Also a
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

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_ASYMMETRIC_FENCE_H_
