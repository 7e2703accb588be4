#ifndef STOCKADE_TESTS_LOCKS_LOCK_CONDITION_H_
#define STOCKADE_TESTS_LOCKS_LOCK_CONDITION_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/locks/internal/lock_word.h"
#include "stockade/locks/internal/thread_record.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade::testing {

// What may be known of how locks work inside: to bring one into a condition, and to see that it is there.

// More than it takes for a lock to expect that reads, or the writes of one thread, go on.
inline constexpr int kManyReads = static_cast<int>(locks_internal::lock_word::kBiasAfterReads) + 8;
inline constexpr int kManyWrites = static_cast<int>(locks_internal::lock_word::kFavourAfterWrites) + 8;

template <typename Lock>
void WriteOften(Lock& lock, int times = kManyWrites) {
  for (int i = 0; i < times; ++i) std::lock_guard held(lock);
}
inline void ReadOften(ReentrantSharedMutex& lock, int times = kManyReads) {
  for (int i = 0; i < times; ++i) std::shared_lock held(lock);
}

// Whether locks come to favour a thread: where the kernel refuses the asymmetric fence they do not.
inline bool LocksFavourThreads() {
  base_internal::InitAsymmetricFence();
  return base_internal::InlineLightStoreWorks();
}

// The entry of the calling thread's table with its hold of `lock`; null where it has none, or has it in the overflow.
template <typename Lock>
locks_internal::Hold* EntryWithHold(const Lock& lock) {
  const auto begin = reinterpret_cast<uintptr_t>(&lock);
  for (size_t i = 0; i < locks_internal::ThreadRecord::kEntries; ++i) {
    locks_internal::Hold& hold =
        locks_internal::ThreadRecord::Mine().entry(static_cast<uint32_t>(i * sizeof(locks_internal::Hold)));
    const uintptr_t held = hold.lock.load(std::memory_order_relaxed);
    if (held >= begin && held < begin + sizeof(Lock)) return &hold;
  }
  return nullptr;
}

// Whether the calling thread is in by having published itself.
template <typename Lock>
bool IsPublished(const Lock& lock) {
  const locks_internal::Hold* const hold = EntryWithHold(lock);
  return hold != nullptr && hold->is_published();
}
inline bool ReadsPublished(ReentrantSharedMutex& lock) {
  std::shared_lock held(lock);
  return IsPublished(lock);
}
template <typename Lock>
bool WritesPublished(Lock& lock) {
  std::lock_guard held(lock);
  return IsPublished(lock);
}

// The place of the lock at `lock` in each thread's table.
template <typename Lock>
uint32_t PlaceOf(const Lock* lock) {
  // The offset in the object of the address that identifies the lock. A new thread has room in its table.
  static const uintptr_t offset = [] {
    Lock probe;
    uintptr_t held = 0;
    std::thread([&] {
      std::lock_guard guard(probe);
      held = EntryWithHold(probe)->lock.load() & ~locks_internal::Hold::kTags;
    }).join();
    return held - reinterpret_cast<uintptr_t>(&probe);
  }();
  return locks_internal::ThreadRecord::EntryOf(reinterpret_cast<uintptr_t>(lock) + offset);
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_LOCK_CONDITION_H_
