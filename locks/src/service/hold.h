#ifndef STOCKADE_LOCKS_SRC_SERVICE_HOLD_H_
#define STOCKADE_LOCKS_SRC_SERVICE_HOLD_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/base/timer_queue.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::locks_internal {

class ServiceCore;
struct HoldRecord;
struct LeaseState;

// The kind whose holds engines cannot tell from those of `kind`, if there is one: an owner has one of the two at a
// time.
inline std::optional<LockKind> ExclusiveTwin(LockKind kind) {
  switch (kind) {
    case LockKind::kReentrant: return LockKind::kFair;
    case LockKind::kFair: return LockKind::kReentrant;
    case LockKind::kRead:
    case LockKind::kWrite: break;
  }
  return std::nullopt;
}

enum class LossReason : uint8_t {
  kExpired,       // Its time was over on our clock.
  kGone,          // The engine has it no more: force-released, emptied, failed over.
  kServiceEnded,  // The service was destroyed.
  kReleasedAll,   // LockService::ReleaseAll().
};

// One time that an owner holds a lock: from the acquire that found it without to the release of its last lease, or to
// its loss. An owner that lost a lock and takes it again has another ServiceHold, so leases of before cannot touch it.
//
// Invariants: leases.size() is the count that the engine was last asked to have. Once lost or ended, leases is empty
// and leased_until is the infinite past, for good: it is only moved on while ValidUntil() has not been passed.
struct ServiceHold {
  ServiceHold(HoldKey hold_key, Clock* hold_clock, std::shared_ptr<const LockSession> hold_session, Instant until)
      : key(std::move(hold_key)),
        clock(hold_clock),
        session(std::move(hold_session)),
        leased_until(until.nanoseconds()) {}

  const HoldKey key;
  Clock* const clock;
  const std::shared_ptr<const LockSession> session;  // Null: ends with its lease only.

  // Written with `mutex` held. Relaxed reads are enough: a caller concludes something about time, not about memory.
  std::atomic<int64_t> leased_until;

  Mutex mutex;
  std::vector<std::shared_ptr<LeaseState>> leases STOCKADE_GUARDED_BY(mutex);
  uint64_t entries STOCKADE_GUARDED_BY(mutex) = 0;      // Leases that there have been.
  int watched STOCKADE_GUARDED_BY(mutex) = 0;           // Leases that the watchdog keeps alive.
  uint64_t newest_step STOCKADE_GUARDED_BY(mutex) = 0;  // Of its answered steps: leased_until takes account of it.
  Instant began STOCKADE_GUARDED_BY(mutex);
  std::optional<LossReason> loss STOCKADE_GUARDED_BY(mutex) = std::nullopt;

  // The timer that ends it, while nothing renews it or where its session may end.
  std::optional<TimerQueue::Id> expiry STOCKADE_GUARDED_BY(mutex) = std::nullopt;

  // When the watchdog looks at it next. None: it does not. Guarded by the watchdog's mutex.
  std::optional<Instant> watch_at = std::nullopt;

  // Of its leases alone.
  Instant LeasedUntil() const { return Instant::FromNanoseconds(leased_until.load(std::memory_order_relaxed)); }
  void SetLeasedUntil(Instant at) STOCKADE_REQUIRES(mutex) {
    leased_until.store(at.nanoseconds(), std::memory_order_relaxed);
  }
  Instant ValidUntil() const {
    return session == nullptr ? LeasedUntil() : std::min(LeasedUntil(), session->ValidUntil());
  }
  // Whether its time is not over. False may still become true by a renewal on its way: see ServiceCore::StillHeld().
  bool InTime() const { return clock->Now() < ValidUntil(); }
};

// What all steps of one owner on one lock go through, while there are any or it holds, and as long as one of them that
// was not answered may yet come to the engine: the steps that follow have to tell it so.
// The exclusive twins have one: to some engines their holds and steps are the same.
struct HoldRecord {
  explicit HoldRecord(HoldKey record_key) : key(std::move(record_key)) {}

  const HoldKey key;  // The table's. Its kind is kReentrant for kFair, too.

  // Taken for each step, from its sending to its answer: an engine sees steps one after another. By any thread. False:
  // another step has not ended by `deadline`.
  bool LockSteps(Clock& clock, Instant deadline) {
    const MutexLock lock(mutex);
    while (stepping) {
      if (clock.Now() >= deadline) return false;
      steps_free.WaitUntil(clock, mutex, deadline);
    }
    stepping = true;
    return true;
  }
  bool TryLockSteps() {
    const MutexLock lock(mutex);
    return !std::exchange(stepping, true);
  }
  void UnlockSteps() {
    {
      const MutexLock lock(mutex);
      stepping = false;
    }
    steps_free.NotifyOne();
  }

  Mutex mutex;
  CondVar steps_free;
  bool stepping STOCKADE_GUARDED_BY(mutex) = false;
  std::shared_ptr<ServiceHold> hold STOCKADE_GUARDED_BY(mutex) = nullptr;  // Null: does not hold. May be lost already.
  bool unanswered = false;  // The outcome of a step is unknown. Only the caller that has the steps uses it.

  std::optional<Instant> kept_until STOCKADE_GUARDED_BY(mutex) = std::nullopt;  // For that, with a pin of its own.

  size_t users = 0;  // Guarded by the mutex of its shard of the table.

  std::shared_ptr<ServiceHold> CurrentHold() {
    const MutexLock lock(mutex);
    return hold;
  }
  // Null: does not hold it as this kind.
  std::shared_ptr<ServiceHold> HoldAs(LockKind kind) {
    const MutexLock lock(mutex);
    return hold != nullptr && hold->key.kind == kind ? hold : nullptr;
  }
};

// What a LockLease stands for.
struct LeaseState {
  std::shared_ptr<ServiceCore> core;
  std::shared_ptr<HoldRecord> record;  // Pinned in the table.
  std::shared_ptr<ServiceHold> hold;
  std::optional<int64_t> token;
  bool watched = false;
  std::optional<std::thread::id> thread;  // Whose it is, where it was acquired without an owner.
  uint64_t entry = 0;                     // ServiceHold::entries with it.
  bool release_waits = true;              // In the lease's destructor. Its user's.

  std::stop_source lost_source = {};

  Mutex mutex = {};
  CondVar told = {};
  std::atomic<bool> released{false};  // Written with mutex held. Relaxed reads need no mutex.
  std::optional<std::thread::id> telling STOCKADE_GUARDED_BY(mutex) = {};  // The thread that runs callbacks of lost().
  std::vector<Executor::Task> after_telling STOCKADE_GUARDED_BY(mutex) = {};  // What waits for these callbacks.

  // Lost, and not released before or since.
  bool IsLost() const;
  // Whether LossLog has had the loss.
  bool LossIsLogged() const;
  // On the executor: runs the callbacks of lost(), unless it has been released.
  void TellLost();
  // No callback will begin any more. False: had been called.
  bool MarkReleased();
  // Waits for callbacks that run, unless this is called by one.
  void AwaitTold();
  // Once it is marked as released. False, and `task` as it was: no callback runs. Otherwise it runs after them.
  bool RunOnceTold(Executor::Task& task);
};

// FailedPrecondition, with the lock and the reason.
absl::Status LostError(const HoldKey& key, LossReason reason);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_HOLD_H_
