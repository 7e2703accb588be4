#ifndef STOCKADE_LOCKS_LOCK_CORE_H_
#define STOCKADE_LOCKS_LOCK_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "stockade/base/fork_guard.h"
#include "stockade/locks/access_monitor.h"
#include "stockade/locks/lock_options.h"
#include "stockade/locks/steady_deadline.h"

namespace stockade::internal {

struct Hold;

// What a lock is called, how it queues and where it counts; the locks of all keys of a KeyedMutex share one.
class LockIdentity {
 public:
  // `kind`: the class, a literal. Aborts with the text of options.Validate().
  LockIdentity(std::string_view kind, const LockOptions& options);
  ~LockIdentity();

  LockIdentity(const LockIdentity&) = delete;
  LockIdentity& operator=(const LockIdentity&) = delete;

  std::string_view name() const { return name_; }
  uint64_t max_passes() const { return fifo_ ? 0 : AccessMonitor::kMaxPasses; }
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
// a record of that thread (ThreadHolds), so re-entering, leaving an inner hold and asking touch nothing that another
// thread writes; only the outermost hold goes through the monitor.
//
// A thread's holds {reads, writes} and the monitor agree: writes > 0: it is the writer; else reads > 0: it is one of
// the readers; else it is neither, and it has no record.
//
// Aborts through the identity on misuse: a release of what the thread does not hold, Lock() while it only reads,
// more than kMaxHolds, destruction while somebody holds or waits, a call in a forked child.
class LockCore {
 public:
  // How often one thread may hold one lock in one mode. More is a recursion without an end.
  static constexpr uint32_t kMaxHolds = 1u << 24;

  // `identity` must outlive it.
  explicit LockCore(LockIdentity& identity) : identity_(identity), monitor_(identity.max_passes()) {}
  ~LockCore();

  LockCore(const LockCore&) = delete;
  LockCore& operator=(const LockCore&) = delete;

  void Lock();
  bool TryLock();
  // False at once where the thread holds only a read: it would wait for itself.
  bool TryLockUntil(SteadyDeadline deadline);
  void Unlock();

  void LockShared();
  bool TryLockShared();
  bool TryLockSharedUntil(SteadyDeadline deadline);
  void UnlockShared();

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
  Reentry TryReenter(LockMode mode);
  bool TryAcquire(LockMode mode);
  bool AcquireUntil(LockMode mode, SteadyDeadline deadline);
  void BeginHold(LockMode mode);
  void EndHold(const Hold& hold, LockMode mode);
  void CountHold(uint32_t& holds) const;

  LockIdentity& identity_;
  mutable AccessMonitor monitor_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_LOCK_CORE_H_
