#ifndef STOCKADE_INVENTORY_RANKED_MUTEX_H_
#define STOCKADE_INVENTORY_RANKED_MUTEX_H_

#include <cstdint>

#include "stockade/base/thread_annotations.h"
#include "stockade/locks/lock_options.h"

namespace stockade::internal {

// The order in which a thread takes an inventory's locks, and those of one rank in ascending order of their index.
// Below them come an item's slow lock and its shards, which know their own order.
enum class LockRank : uint8_t { kSkuChanges, kBuyers, kOrders, kItem, kCatalogue };

#ifdef NDEBUG
inline void CheckLockOrder(LockRank, uint32_t) {}
inline void NoteLocked(LockRank, uint32_t) {}
inline void NoteUnlocked(LockRank, uint32_t) {}
#else
// Aborts, naming both, if the calling thread holds a lock that comes after this one, or this one. So an order that
// could deadlock is found by the first thread that takes it, without a second one to meet.
void CheckLockOrder(LockRank rank, uint32_t index);
void NoteLocked(LockRank rank, uint32_t index);
void NoteUnlocked(LockRank rank, uint32_t index);
#endif

// A lock that has its place in the order, checked in builds with assertions. Lockable as `Mutex` is. A thread is within
// one inventory at a time: none calls back with a lock held.
template <class Mutex>
class Ranked {
 public:
  Ranked(LockRank rank, uint32_t index, const char* name)
      : rank_(rank), index_(index), mutex_(LockOptions{.name = name, .metrics = nullptr}) {}

  void lock() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    CheckLockOrder(rank_, index_);
    mutex_.lock();
    NoteLocked(rank_, index_);
  }
  void unlock() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    NoteUnlocked(rank_, index_);
    mutex_.unlock();
  }
  void lock_shared() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    CheckLockOrder(rank_, index_);
    mutex_.lock_shared();
    NoteLocked(rank_, index_);
  }
  void unlock_shared() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    NoteUnlocked(rank_, index_);
    mutex_.unlock_shared();
  }

 private:
  const LockRank rank_;
  const uint32_t index_;
  Mutex mutex_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_RANKED_MUTEX_H_
