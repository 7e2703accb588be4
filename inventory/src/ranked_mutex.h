#ifndef STOCKADE_INVENTORY_RANKED_MUTEX_H_
#define STOCKADE_INVENTORY_RANKED_MUTEX_H_

#include <cstdint>

#include "stockade/base/thread_annotations.h"
#include "stockade/locks/lock_options.h"

namespace stockade::inventory_internal {

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

// A lock that has its place in the order, checked in builds with assertions. Lockable as `Wrapped` is. A thread is
// within one inventory at a time: none calls back with a lock held.
template <class Wrapped>
class STOCKADE_CAPABILITY("mutex") Ranked {
 public:
  Ranked(LockRank rank, uint32_t index, const char* name)
      : rank_(rank), index_(index), mutex_(LockOptions{.name = name, .metrics = nullptr}) {}

  void lock() STOCKADE_ACQUIRE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    CheckLockOrder(rank_, index_);
    mutex_.lock();
    NoteLocked(rank_, index_);
  }
  void unlock() STOCKADE_RELEASE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    NoteUnlocked(rank_, index_);
    mutex_.unlock();
  }
  void lock_shared() STOCKADE_ACQUIRE_SHARED() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    CheckLockOrder(rank_, index_);
    mutex_.lock_shared();
    NoteLocked(rank_, index_);
  }
  void unlock_shared() STOCKADE_RELEASE_SHARED() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    NoteUnlocked(rank_, index_);
    mutex_.unlock_shared();
  }

  // As Mutex::AssertHeld().
  void AssertHeld() const STOCKADE_ASSERT_CAPABILITY(this) {}

 private:
  const LockRank rank_;
  const uint32_t index_;
  Wrapped mutex_;
};

// Holds a Ranked lock for reading for a scope.
template <class Wrapped>
class STOCKADE_SCOPED_CAPABILITY RankedReadLock {
 public:
  explicit RankedReadLock(Ranked<Wrapped>& mutex) STOCKADE_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~RankedReadLock() STOCKADE_RELEASE_GENERIC() { mutex_.unlock_shared(); }
  RankedReadLock(const RankedReadLock&) = delete;
  RankedReadLock& operator=(const RankedReadLock&) = delete;

 private:
  Ranked<Wrapped>& mutex_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_RANKED_MUTEX_H_
