#ifndef STOCKADE_LOCKS_LOCK_CORE_H_
#define STOCKADE_LOCKS_LOCK_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "stockade/base/export.h"
#include "stockade/base/fork_guard.h"
#include "stockade/locks/access_gate.h"
#include "stockade/locks/lock_options.h"
#include "stockade/locks/steady_deadline.h"
#include "stockade/locks/thread_record.h"
#include "stockade/metrics/striped_cells.h"

namespace stockade::internal {

// What a lock is called, how it queues and where it counts; the locks of all keys of a KeyedMutex share one.
class STOCKADE_EXPORT LockIdentity {
 public:
  // `kind`: the class, a literal. Aborts with the text of options.Validate().
  LockIdentity(std::string_view kind, const LockOptions& options);
  ~LockIdentity();

  LockIdentity(const LockIdentity&) = delete;
  LockIdentity& operator=(const LockIdentity&) = delete;

  std::string_view name() const { return name_; }
  bool fifo() const { return fifo_; }
  LockMetrics* metrics() const { return metrics_.get(); }  // Null where it has none.

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

// A reentrant read-write lock without a face: the public locks are thin covers of it. Counts what each thread holds in
// that thread's record, so re-entering, leaving an inner hold and asking write nothing that another thread reads; only
// the outermost hold goes through the gate, and a published one does not even change its word.
//
// A thread's hold and the gate agree: kWrite: it is the writer by the word; kCountedRead: one of the readers by the
// word; kPublishedRead, kPublishedWrite: it is in, and the word does not know; no hold: it is not in.
//
// The fast paths stand here, to be inlined; each leaves everything but the common case to its slow twin, which starts
// over. Aborts through the identity on misuse: a release of what the thread does not hold, Lock() while it only reads,
// more than kMaxHolds, destruction while somebody holds or waits, a call in a forked child.
//
// Memory: two cache lines; a fast path reads the first.
class STOCKADE_EXPORT alignas(64) LockCore {
 public:
  // How often one thread may hold one lock in one mode. More is a recursion without an end.
  static constexpr uint32_t kMaxHolds = 1u << 24;

  // `identity` must outlive it.
  explicit LockCore(LockIdentity& identity);
  ~LockCore();

  LockCore(const LockCore&) = delete;
  LockCore& operator=(const LockCore&) = delete;

  void Lock() {
    if (!TryLockFast()) LockSlow();
  }
  bool TryLock() { return TryLockFast() || TryLockUntil(kNoWait); }
  // False at once where the thread holds only a read: it would wait for itself.
  bool TryLockUntil(SteadyDeadline deadline);
  void Unlock() {
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
  }
  bool TryLockShared() { return TryLockSharedFast() || TryLockSharedSlow(kNoWait); }
  bool TryLockSharedUntil(SteadyDeadline deadline) { return TryLockSharedFast() || TryLockSharedSlow(deadline); }
  void UnlockShared() {
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

  // One write hold becomes one read hold.
  void Downgrade();
  // One read hold becomes one write hold, where no other thread reads.
  bool TryUpgrade();

  // Of the calling thread.
  uint32_t write_holds() const;
  uint32_t read_holds() const;

  // Threads that wait, for tests to see that one has parked.
  uint64_t waiters() const;

  const LockIdentity& identity() const { return identity_; }

 private:
  enum class Reentry { kNo, kDone, kRefused };

  // Under what the holds of this lock are kept.
  uintptr_t key() const { return reinterpret_cast<uintptr_t>(this); }

  // Of an address minus this lock's: is it this lock, held for writing?
  static bool IsWrite(uintptr_t tag) { return (tag & ~(Hold::kSampled | Hold::kPublishedRead)) == Hold::kWrite; }

  bool TryLockFast() {
    gate_.PrepareToWrite();  // Before the first load from its cache line.
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
      bool had_it_long = false;
      if (!gate_.TryEnterExclusive(mine, had_it_long)) return false;
      hold.Set(key() + Hold::kWrite);
      if (had_it_long) [[unlikely]] {
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
  void UnlockSlow();
  bool TryLockSharedSlow(SteadyDeadline deadline);
  void UnlockSharedSlow();

  Reentry TryReenter(LockMode mode);
  bool AcquireUntil(LockMode mode, SteadyDeadline deadline);
  bool TryAcquire(LockMode mode);
  bool TryPublishRead();
  void BeginHold(LockMode mode);
  void BecomeReader(Hold& hold);

  // Counts the acquisition, and times one hold in so many.
  void CountAcquired(Hold& hold, LockMode mode) {
    if ((acquisitions_->Add(static_cast<size_t>(mode), 1) & (kHoldSampling - 1)) == 1) [[unlikely]] {
      BeginSample(hold);
    }
  }
  void BeginSample(Hold& hold);
  void EndSample(Hold& hold);
  void Reenter(Hold& hold, LockMode mode) const;

  // One hold in so many of a thread is timed, the first one being the first. The help of stockade_lock_hold_seconds
  // states it.
  static constexpr uint64_t kHoldSampling = 256;

  StripedCells* const acquisitions_;  // By LockMode. Null: the lock counts nothing.
  LockIdentity& identity_;
  mutable AccessGate gate_;
};
static_assert(sizeof(LockCore) == 128);

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_LOCK_CORE_H_
