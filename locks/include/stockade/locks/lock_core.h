#ifndef STOCKADE_LOCKS_LOCK_CORE_H_
#define STOCKADE_LOCKS_LOCK_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "stockade/base/fork_guard.h"
#include "stockade/locks/access_gate.h"
#include "stockade/locks/lock_options.h"
#include "stockade/locks/steady_deadline.h"
#include "stockade/locks/thread_record.h"

namespace stockade::internal {

// What a lock is called, how it queues and where it counts; the locks of all keys of a KeyedMutex share one.
class LockIdentity {
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
// that thread's record, so re-entering, leaving an inner hold and asking touch nothing that another thread writes; only
// the outermost hold goes through the gate, and an outermost read not even that, while the word has kBias.
//
// A thread's hold and the gate agree: a published hold is a reader that the gate does not count; else writes > 0: it is
// the writer; else reads > 0: it is one of the counted readers; no hold: it is neither.
//
// The fast paths stand here, to be inlined; each leaves everything but the common case to its slow twin, which starts
// over. Aborts through the identity on misuse: a release of what the thread does not hold, Lock() while it only reads,
// more than kMaxHolds, destruction while somebody holds or waits, a call in a forked child.
//
// Memory: 192 bytes.
class LockCore {
 public:
  // How often one thread may hold one lock in one mode. More is a recursion without an end.
  static constexpr uint32_t kMaxHolds = 1u << 24;

  // How many arriving threads may pass the head of the queue while it wakes up, without the FIFO option. A lock that is
  // only ever taken exclusively lets more of them do so: a thread's whole time slice of short holds costs less than to
  // hand the lock over in the middle of them.
  static constexpr uint64_t kMaxPasses = 64;
  static constexpr uint64_t kMaxPassesExclusive = 1 << 16;

  // `identity` must outlive it.
  LockCore(LockIdentity& identity, uint64_t max_passes)
      : gate_(reinterpret_cast<uintptr_t>(this), identity.fifo() ? 0 : max_passes),
        identity_(identity),
        metrics_(identity.metrics()) {}
  ~LockCore();

  LockCore(const LockCore&) = delete;
  LockCore& operator=(const LockCore&) = delete;

  void Lock() {
    if (!TryLockFast()) LockSlow();
  }
  bool TryLock() { return TryLockFast() || TryLockUntil(AccessGate::kNoWait); }
  // False at once where the thread holds only a read: it would wait for itself.
  bool TryLockUntil(SteadyDeadline deadline);
  void Unlock() {
    ThreadRecord* const mine = ThreadRecord::Fast();
    if (mine != nullptr) [[likely]] {
      Hold& hold = gate_.EntryIn(*mine);
      if (hold.lock.load(std::memory_order_relaxed) == gate_.key()) [[likely]] {
        if (hold.writes > 1) {
          --hold.writes;
          return;
        }
        if (hold.writes == 1 && hold.reads == 0 && !hold.IsSampled()) [[likely]] {
          hold.writes = 0;
          hold.lock.store(0, std::memory_order_release);
          gate_.LeaveExclusive();
          return;
        }
      }
    }
    UnlockSlow();
  }

  void LockShared() {
    if (!TryLockSharedFast()) TryLockSharedSlow(kNever);
  }
  bool TryLockShared() { return TryLockSharedFast() || TryLockSharedSlow(AccessGate::kNoWait); }
  bool TryLockSharedUntil(SteadyDeadline deadline) { return TryLockSharedFast() || TryLockSharedSlow(deadline); }
  void UnlockShared() {
    ThreadRecord* const mine = ThreadRecord::Fast();
    if (mine != nullptr) [[likely]] {
      Hold& hold = gate_.EntryIn(*mine);
      if (hold.lock.load(std::memory_order_relaxed) == (gate_.key() | Hold::kPublishedTag)) [[likely]] {
        if (hold.reads > 1) {
          --hold.reads;
          return;
        }
        if (!hold.IsSampled()) [[likely]] {
          hold.reads = 0;
          hold.Unpublish();
          return;
        }
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

  bool TryLockFast() {
    ThreadRecord* const mine = ThreadRecord::Fast();
    if (mine == nullptr) [[unlikely]] {
      return false;
    }
    Hold& hold = gate_.EntryIn(*mine);
    const uintptr_t lock = hold.lock.load(std::memory_order_relaxed);
    if (lock == gate_.key()) {
      if (hold.writes == 0 || hold.writes == kMaxHolds) return false;
      ++hold.writes;
      return true;
    }
    if (lock != 0 || !gate_.TryEnter(LockMode::kExclusive)) return false;
    hold.writes = 1;
    hold.lock.store(gate_.key(), std::memory_order_release);
    if (metrics_ != nullptr) CountAcquired(hold, LockMode::kExclusive);
    return true;
  }

  bool TryLockSharedFast() {
    ThreadRecord* const mine = ThreadRecord::Fast();
    if (mine == nullptr) [[unlikely]] {
      return false;
    }
    Hold& hold = gate_.EntryIn(*mine);
    const uintptr_t lock = hold.lock.load(std::memory_order_relaxed);
    if (lock == (gate_.key() | Hold::kPublishedTag)) {
      if (hold.reads == kMaxHolds) return false;
      ++hold.reads;
      return true;
    }
    if (lock != 0) return false;
    if (!gate_.PublishedReadersAreIn()) return TryLockSharedCounted(hold);
    hold.Publish(gate_.key());
    if (!gate_.PublishedReadersAreIn()) [[unlikely]] {
      hold.Unpublish();
      return false;
    }
    hold.reads = 1;
    if (metrics_ != nullptr) CountAcquired(hold, LockMode::kShared);
    return true;
  }

  bool TryLockSharedCounted(Hold& hold);
  void LockSlow();
  void UnlockSlow();
  bool TryLockSharedSlow(SteadyDeadline deadline);
  void UnlockSharedSlow();

  Reentry TryReenter(LockMode mode);
  bool AcquireUntil(LockMode mode, SteadyDeadline deadline);
  Hold& BeginHold(LockMode mode);
  void CountAcquired(Hold& hold, LockMode mode);
  void EndSample(Hold& hold) const;
  void CountHold(uint32_t& holds) const;

  mutable AccessGate gate_;
  LockIdentity& identity_;
  LockMetrics* const metrics_;  // Null: does not count.
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_LOCK_CORE_H_
