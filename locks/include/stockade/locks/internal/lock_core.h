#ifndef STOCKADE_LOCKS_INTERNAL_LOCK_CORE_H_
#define STOCKADE_LOCKS_INTERNAL_LOCK_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "stockade/base/export.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/tsan.h"
#include "stockade/locks/internal/access_gate.h"
#include "stockade/locks/internal/steady_deadline.h"
#include "stockade/locks/internal/thread_record.h"
#include "stockade/locks/lock_options.h"
#include "stockade/metrics/striped_cells.h"

namespace stockade::locks_internal {

// The name, queue policy and metrics of a lock. The locks of all keys of a KeyedMutex share one.
class STOCKADE_EXPORT LockIdentity {
 public:
  // `kind` is the class name, a literal. Aborts with the message of options.Validate() if an option is invalid.
  LockIdentity(std::string_view kind, const LockOptions& options);
  ~LockIdentity();

  LockIdentity(const LockIdentity&) = delete;
  LockIdentity& operator=(const LockIdentity&) = delete;

  std::string_view name() const { return name_; }
  bool fifo() const { return fifo_; }
  LockMetrics* metrics() const { return metrics_.get(); }  // Null if it has none.

  bool InForkedChild() const { return fork_guard_.InForkedChild(); }
  void CheckNotForked() const {
    if (fork_guard_.InForkedChild()) [[unlikely]] {
      DieInForkedChild();
    }
  }
  // Aborts with "<kind> '<name>': <what>".
  [[noreturn]] void Die(std::string_view what) const;

 private:
  [[noreturn]] void DieInForkedChild() const;

  const std::string_view kind_;
  const std::string name_;
  const bool fifo_;
  const ForkGuard fork_guard_;
  std::unique_ptr<LockMetrics> metrics_;
};

// The reentrant read-write lock that the public locks wrap. Each thread's holds are counted in that thread's record, so
// that re-entry, the release of an inner hold and queries write nothing that another thread reads. Only the outermost
// hold uses the gate, and a published hold does not even change the gate's word.
//
// A thread's hold and the gate are consistent: with kWrite, the thread is the writer in the word; with kCountedRead, it
// is one of the readers in the word; with kPublishedRead or kPublishedWrite, it is inside and not counted in the word;
// without a hold, it is not inside.
//
// The fast paths are inline; each handles only the common case and calls its slow counterpart otherwise, which starts
// over. Misuse aborts through the identity: a release of a lock that the thread does not hold, Lock() while the thread
// only reads, more than kMaxHolds holds, destruction while the lock is held or waited for, a call in a forked child.
//
// Memory: two cache lines, of which a fast path reads the first.
class STOCKADE_EXPORT alignas(64) LockCore {
 public:
  // The largest number of holds of one thread on one lock in one mode. More indicates an unbounded recursion.
  static constexpr uint32_t kMaxHolds = 1u << 24;

  // `identity` must outlive the lock.
  explicit LockCore(LockIdentity& identity);
  ~LockCore();

  LockCore(const LockCore&) = delete;
  LockCore& operator=(const LockCore&) = delete;

  void Lock() {
    if (!TryLockFast()) LockSlow();
    base_internal::TsanAcquire(this);
  }
  bool TryLock() { return base_internal::TsanAcquireIf(TryLockFast() || TryLockSlow(kNoWait), this); }
  // Returns false at once if the thread only holds a read, because it would wait for itself.
  bool TryLockUntil(SteadyDeadline deadline) { return base_internal::TsanAcquireIf(TryLockSlow(deadline), this); }
  void Unlock() {
    base_internal::TsanRelease(this);
    ThreadRecord* const mine = ThreadRecord::Fast();
    if (mine != nullptr) [[likely]] {
      Hold& hold = gate_.EntryIn(*mine);
      const uintptr_t tag = hold.lock.load(std::memory_order_relaxed) - key();
      if (hold.beyond == 0) {
        if (tag == Hold::kPublishedWrite) [[likely]] {
          return hold.UnpublishInline();
        }
        if (tag == Hold::kWrite) {
          hold.Set(0);
          return gate_.LeaveExclusive();
        }
      } else if (IsWrite(tag) && hold.beyond >= Hold::kOneWrite) {
        hold.beyond -= Hold::kOneWrite;
        return;
      }
    }
    UnlockSlow();
  }

  void LockShared() {
    if (!TryLockSharedFast()) TryLockSharedSlow(kNever);
    base_internal::TsanAcquire(this);
  }
  bool TryLockShared() { return base_internal::TsanAcquireIf(TryLockSharedFast() || TryLockSharedSlow(kNoWait), this); }
  bool TryLockSharedUntil(SteadyDeadline deadline) {
    return base_internal::TsanAcquireIf(TryLockSharedFast() || TryLockSharedSlow(deadline), this);
  }
  void UnlockShared() {
    base_internal::TsanRelease(this);
    ThreadRecord* const mine = ThreadRecord::Fast();
    if (mine != nullptr) [[likely]] {
      Hold& hold = gate_.EntryIn(*mine);
      const uintptr_t tag = hold.lock.load(std::memory_order_relaxed) - key();
      if (hold.beyond == 0) {
        if (tag == Hold::kPublishedRead) [[likely]] {
          return hold.UnpublishInline();
        }
        if (tag == Hold::kCountedRead) {
          hold.Set(0);
          return gate_.LeaveShared();
        }
      } else if (tag <= Hold::kTags && hold.reads_beyond() > 0) {
        hold.beyond -= Hold::kOneRead;
        return;
      }
    }
    UnlockSharedSlow();
  }

  // Turns one write hold into a read hold.
  void Downgrade() {
    base_internal::TsanRelease(this);
    DowngradeHold();
  }
  // Turns one read hold into a write hold, if no other thread reads.
  bool TryUpgrade() { return base_internal::TsanAcquireIf(TryUpgradeHold(), this); }

  // Holds of the calling thread.
  uint32_t write_holds() const;
  uint32_t read_holds() const;

  // The number of waiters, for tests that wait until a thread has parked.
  uint64_t waiters() const;

  const LockIdentity& identity() const { return identity_; }

 private:
  enum class Reentry { kNo, kDone, kRefused };

  // The key under which holds of this lock are stored.
  uintptr_t key() const { return reinterpret_cast<uintptr_t>(this); }

  // Whether an address minus this lock's key means a write hold of this lock.
  static bool IsWrite(uintptr_t tag) { return (tag & ~(Hold::kSampled | Hold::kPublishedRead)) == Hold::kWrite; }

  bool TryLockFast() {
    gate_.PrepareToWrite();  // Before the first load from the word's cache line.
    ThreadRecord* const mine = ThreadRecord::Fast();
    if (mine == nullptr) [[unlikely]] {
      return false;
    }
    Hold& hold = gate_.EntryIn(*mine);
    const uintptr_t lock = hold.lock.load(std::memory_order_relaxed);
    if (lock != 0) {
      if (!IsWrite(lock - key()) || hold.beyond >= (kMaxHolds - 1) * Hold::kOneWrite) return false;
      hold.beyond += Hold::kOneWrite;
      return true;
    }
    if (gate_.IsFavoured(mine)) [[likely]] {
      hold.PublishInline(key(), Hold::kPublishedWrite);
      if (!gate_.IsFavoured(mine)) [[unlikely]] {
        hold.UnpublishInline();
        return false;
      }
    } else {
      bool qualifies_for_bias = false;
      if (!gate_.TryEnterExclusive(mine, qualifies_for_bias)) return false;
      hold.Set(key() + Hold::kWrite);
      if (qualifies_for_bias) [[unlikely]] {
        AskFavour(*mine, hold);
      }
    }
    if (acquisitions_ != nullptr) CountAcquired(hold, LockMode::kExclusive);
    return true;
  }

  bool TryLockSharedFast() {
    ThreadRecord* const mine = ThreadRecord::Fast();
    if (mine == nullptr) [[unlikely]] {
      return false;
    }
    Hold& hold = gate_.EntryIn(*mine);
    const uintptr_t lock = hold.lock.load(std::memory_order_relaxed);
    if (lock == 0) [[likely]] {
      if (!gate_.PublishedReadersAreIn()) [[unlikely]] {
        return TryLockSharedCounted(hold);
      }
      hold.PublishInline(key(), Hold::kPublishedRead);
      if (!gate_.PublishedReadersAreIn()) [[unlikely]] {
        hold.UnpublishInline();
        return false;
      }
      if (acquisitions_ != nullptr) CountAcquired(hold, LockMode::kShared);
      return true;
    }
    if (lock - key() > Hold::kTags || hold.reads_beyond() == kMaxHolds - 1) return false;
    hold.beyond += Hold::kOneRead;
    return true;
  }

  bool TryLockSharedCounted(Hold& hold);
  void AskFavour(ThreadRecord& mine, Hold& hold);
  void LockSlow();
  bool TryLockSlow(SteadyDeadline deadline);
  void UnlockSlow();
  void DowngradeHold();
  bool TryUpgradeHold();
  bool TryLockSharedSlow(SteadyDeadline deadline);
  void UnlockSharedSlow();

  Reentry TryReenter(LockMode mode);
  bool AcquireUntil(LockMode mode, SteadyDeadline deadline);
  bool TryAcquire(LockMode mode);
  bool TryPublishRead();
  void BeginHold(LockMode mode);
  void BecomeReader(Hold& hold);

  // Counts the acquisition, and starts a timed sample once per kHoldSampling acquisitions.
  void CountAcquired(Hold& hold, LockMode mode) {
    if ((acquisitions_->Add(static_cast<size_t>(mode), 1) & (kHoldSampling - 1)) == 1) [[unlikely]] {
      BeginSample(hold);
    }
  }
  void BeginSample(Hold& hold);
  void EndSample(Hold& hold);
  void Reenter(Hold& hold, LockMode mode) const;

  // Of a thread's holds, every 256th is timed, beginning with the first. The help text of stockade_lock_hold_seconds
  // says so.
  static constexpr uint64_t kHoldSampling = 256;

  StripedCells* const acquisitions_;  // By LockMode. Null if the lock has no metrics.
  LockIdentity& identity_;
  mutable AccessGate gate_;
};
static_assert(sizeof(LockCore) == 128);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_INTERNAL_LOCK_CORE_H_
