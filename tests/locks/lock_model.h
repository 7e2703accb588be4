#ifndef STOCKADE_TESTS_LOCKS_LOCK_MODEL_H_
#define STOCKADE_TESTS_LOCKS_LOCK_MODEL_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lock_condition.h"
#include "stockade/locks/keyed_mutex.h"
#include "stockade/locks/keyed_shared_mutex.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade::testing {

// What a thread may do with a lock of any kind, and what becomes of its holds.

inline constexpr int kModelThreads = 8;
inline constexpr int kModelLocks = 3;
inline constexpr uint32_t kMaxDepth = 4;

// Those of a kind that has only writes come first, those that only a ReentrantSharedMutex has last.
enum class Op {
  kLock,
  kTryLock,
  kTryLockFor,
  kUnlock,
  kLockShared,
  kTryLockShared,
  kTryLockSharedFor,
  kUnlockShared,
  kDowngrade,
  kTryUpgrade
};

struct Holds {
  uint32_t reads = 0;
  uint32_t writes = 0;

  bool none() const { return reads + writes == 0; }
};

// Blocking calls only where `may_block`.
inline bool IsAllowed(Op op, const Holds& mine, bool may_block) {
  switch (op) {
    case Op::kLock: return mine.writes < kMaxDepth && (mine.writes > 0 || (mine.reads == 0 && may_block));
    case Op::kTryLock:
    case Op::kTryLockFor: return mine.writes < kMaxDepth;
    case Op::kLockShared: return mine.reads < kMaxDepth && (!mine.none() || may_block);
    case Op::kTryLockShared:
    case Op::kTryLockSharedFor: return mine.reads < kMaxDepth;
    case Op::kUnlock:
    case Op::kDowngrade: return mine.writes > 0;
    case Op::kUnlockShared:
    case Op::kTryUpgrade: return mine.reads > 0;
  }
  return false;
}

inline Holds After(Op op, Holds mine) {
  switch (op) {
    case Op::kLock:
    case Op::kTryLock:
    case Op::kTryLockFor: ++mine.writes; break;
    case Op::kLockShared:
    case Op::kTryLockShared:
    case Op::kTryLockSharedFor: ++mine.reads; break;
    case Op::kUnlock: --mine.writes; break;
    case Op::kUnlockShared: --mine.reads; break;
    case Op::kDowngrade: --mine.writes, ++mine.reads; break;
    case Op::kTryUpgrade: --mine.reads, ++mine.writes; break;
  }
  return mine;
}

inline constexpr std::chrono::microseconds kModelWait{20};

// kModelLocks locks that are objects of their own.
template <typename Mutex, int ops>
class PlainLocks {
 public:
  static constexpr int kOps = ops;

  explicit PlainLocks(bool fifo) {
    for (int i = 0; i < kModelLocks; ++i) locks_.emplace_back(LockOptions{.fifo = fifo});
  }

  uint64_t waiters(int index) { return locks_[index].waiters(); }

  // How one thread uses one of them.
  class Hand {
   public:
    Hand(PlainLocks& all, int index) : lock_(all.locks_[index]) {}

    // What the call answers; true where it answers nothing.
    bool Apply(Op op) {
      switch (op) {
        case Op::kLock: lock_.lock(); return true;
        case Op::kTryLock: return lock_.try_lock();
        case Op::kTryLockFor: return lock_.try_lock_for(kModelWait);
        case Op::kUnlock: lock_.unlock(); return true;
        default: return ApplyShared(op);
      }
    }
    // As the lock counts them, where it does.
    std::optional<Holds> Counted() const {
      if constexpr (kOps > 4) {
        return Holds{lock_.read_hold_count(), lock_.write_hold_count()};
      } else {
        return Holds{0, lock_.hold_count()};
      }
    }
    bool IsPublished() const { return testing::IsPublished(lock_); }

   private:
    bool ApplyShared([[maybe_unused]] Op op) {
      if constexpr (kOps > 4) {
        switch (op) {
          case Op::kLockShared: lock_.lock_shared(); return true;
          case Op::kTryLockShared: return lock_.try_lock_shared();
          case Op::kTryLockSharedFor: return lock_.try_lock_shared_for(kModelWait);
          case Op::kUnlockShared: lock_.unlock_shared(); return true;
          case Op::kDowngrade: lock_.downgrade(); return true;
          case Op::kTryUpgrade: return lock_.try_upgrade();
          default: break;
        }
      }
      return false;
    }

    Mutex& lock_;
  };

 private:
  std::deque<Mutex> locks_;
};

// The locks of the keys 0 to kModelLocks - 1.
template <typename Mutex, int ops>
class KeyedLocks {
 public:
  static constexpr int kOps = ops;

  explicit KeyedLocks(bool fifo) : locks_(LockOptions{.fifo = fifo}) {}

  uint64_t waiters(int index) { return locks_.waiters(index); }

  class Hand {
   public:
    Hand(KeyedLocks& all, int index) : locks_(all.locks_), key_(index) {}

    bool Apply(Op op) {
      switch (op) {
        case Op::kLock: writes_.push_back(locks_.Lock(key_)); return true;
        case Op::kTryLock: return Keep(writes_, locks_.TryLock(key_));
        case Op::kTryLockFor: return Keep(writes_, locks_.TryLockFor(key_, absl::FromChrono(kModelWait)));
        case Op::kUnlock: return LetGo(writes_);
        default: return ApplyShared(op);
      }
    }
    std::optional<Holds> Counted() const { return std::nullopt; }
    bool IsPublished() const { return false; }  // Nobody knows where the lock is.

   private:
    using Guards = std::vector<typename Mutex::Guard>;

    bool ApplyShared([[maybe_unused]] Op op) {
      if constexpr (kOps > 4) {
        switch (op) {
          case Op::kLockShared: reads_.push_back(locks_.LockShared(key_)); return true;
          case Op::kTryLockShared: return Keep(reads_, locks_.TryLockShared(key_));
          case Op::kTryLockSharedFor: return Keep(reads_, locks_.TryLockSharedFor(key_, absl::FromChrono(kModelWait)));
          case Op::kUnlockShared: return LetGo(reads_);
          default: break;
        }
      }
      return false;
    }
    static bool Keep(Guards& guards, std::optional<typename Mutex::Guard> guard) {
      if (guard) guards.push_back(*std::move(guard));
      return guard.has_value();
    }
    // The oldest, so that holds are not released in the order in which they were nested.
    static bool LetGo(Guards& guards) {
      guards.erase(guards.begin());
      return true;
    }

    Mutex& locks_;
    const int key_;
    Guards reads_;
    Guards writes_;
  };

 private:
  Mutex locks_;
};

// A kind of locks with an option.
template <typename LocksOfKind, bool fifo>
struct WithFifo {
  using Locks = LocksOfKind;
  static constexpr bool kFifo = fifo;
};
using Mutexes = PlainLocks<ReentrantMutex, 4>;
using SharedMutexes = PlainLocks<ReentrantSharedMutex, 10>;
using KeyedMutexes = KeyedLocks<KeyedMutex<int>, 4>;
using KeyedSharedMutexes = KeyedLocks<KeyedSharedMutex<int>, 8>;
using EveryKind =
    ::testing::Types<WithFifo<Mutexes, false>, WithFifo<Mutexes, true>, WithFifo<SharedMutexes, false>,
                     WithFifo<SharedMutexes, true>, WithFifo<KeyedMutexes, false>, WithFifo<KeyedMutexes, true>,
                     WithFifo<KeyedSharedMutexes, false>, WithFifo<KeyedSharedMutexes, true>>;

// Whether many operations on locks of the kind bring some to publish their holds. Those of keyed locks live too short.
template <typename Locks>
bool SomePublish() {
  return std::is_same_v<Locks, SharedMutexes> || (std::is_same_v<Locks, Mutexes> && LocksFavourThreads());
}

struct KindName {
  template <typename Kind>
  static std::string GetName(int) {
    using L = typename Kind::Locks;
    const std::string name = std::is_same_v<L, Mutexes>         ? "Mutex"
                             : std::is_same_v<L, SharedMutexes> ? "SharedMutex"
                             : std::is_same_v<L, KeyedMutexes>  ? "KeyedMutex"
                                                                : "KeyedSharedMutex";
    return name + (Kind::kFifo ? "Fifo" : "");
  }
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_LOCK_MODEL_H_
