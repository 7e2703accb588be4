#ifndef STOCKADE_LOCKS_SRC_ENGINES_LOCAL_LOCAL_LOCK_ENGINE_H_
#define STOCKADE_LOCKS_SRC_ENGINES_LOCAL_LOCAL_LOCK_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../hint_listener.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/base/owner_id.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::locks_internal {

// Locks in the memory of one process. Thread-safe; a call blocks only while other calls of the engine run. A step is
// O(holds and waiters of its lock). The memory of a lock is freed with its last hold, waiter and watch. If no step
// notices that a hold has expired, a sweep frees it once the number of names has doubled.
class LocalLockEngine final : public LockEngine {
 public:
  // The clock decides about expiry. It must outlive the engine.
  explicit LocalLockEngine(Clock* clock);
  ~LocalLockEngine() override;

  std::string_view kind() const override { return "local"; }
  std::string_view id() const override { return id_; }
  bool Supports(LockKind) const override { return true; }
  bool TokensSurviveFailover() const override { return true; }

  void TryMany(std::span<LockTry> tries) override;
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override;
  void ReleaseMany(std::span<LockRelease> releases) override;
  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override;
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override;

  // Gives the first hint before it returns. The engine must outlive what it returns.
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override;

  // Names of which anything is kept.
  size_t names() const;

 private:
  class LocalWatch;
  using Listeners = std::vector<std::shared_ptr<HintListener>>;

  // The newest step of a hold, and what it was answered.
  struct Step {
    uint64_t sequence = 0;
    bool held = false;       // Of a release.
    int64_t hold_count = 0;  // This and the next: of a try.
    int64_t fencing_token = 0;
  };
  // Invariant: count > 0; `deadline` has not passed at the last look.
  struct Hold {
    LockKind kind = LockKind::kReentrant;
    OwnerId owner = kNoOwner;
    int64_t count = 0;
    Instant deadline = {};
    Step newest = {};
  };
  struct Waiter {
    OwnerId owner = kNoOwner;
    uint64_t sequence = 0;  // Of its newest step.
  };
  // Invariants: there is at most one hold per kind and owner. A write hold excludes all others except a read hold of
  // its owner. A hold that is neither kRead nor kWrite is the only one. Each owner has at most one place in the queue,
  // which is in order of arrival.
  struct Lock {
    LockKind kind = LockKind::kReentrant;  // Of its holds and its queue; kRead stands for kWrite too.
    std::vector<Hold> holds = {};
    std::deque<Waiter> queue = {};
    Listeners listeners = {};
  };
  struct EndedHold {
    HoldKey hold = {};
    Step newest = {};
  };
  using Locks = absl::flat_hash_map<std::string, Lock>;

  Lock& LockOf(const std::string& name) STOCKADE_REQUIRES(mutex_);
  Lock* FindLock(std::string_view name) STOCKADE_REQUIRES(mutex_);
  void Tidy(std::string_view name) STOCKADE_REQUIRES(mutex_);
  void Sweep(Instant now) STOCKADE_REQUIRES(mutex_);
  static LockKind KindOf(const Lock& lock);
  static void DropLapsed(Lock& lock, Instant now);
  static Hold* FindHold(Lock& lock, LockKind kind, OwnerId owner);
  static Waiter* FindWaiter(Lock& lock, OwnerId owner);
  static Listeners ListenersOf(const Lock& lock);
  Step NewestStep(Lock& lock, const HoldKey& hold) STOCKADE_REQUIRES(mutex_);
  void Remember(const HoldKey& hold, const Step& newest) STOCKADE_REQUIRES(mutex_);
  void Try(LockTry& step, Instant now) STOCKADE_REQUIRES(mutex_);
  // `held` is the owner's hold, or null.
  void EnterOrWait(LockTry& step, Lock& lock, Hold* held, Instant now) STOCKADE_REQUIRES(mutex_);
  void Enter(LockTry& step, Lock& lock, Hold* held, Instant now) STOCKADE_REQUIRES(mutex_);
  static void Answer(LockTry& step, const Step& entered);
  void Lower(LockRelease& step, Instant now, Listeners& to_notify) STOCKADE_REQUIRES(mutex_);

  Clock* const clock_;
  const std::string id_;

  mutable Mutex mutex_;
  Locks locks_ STOCKADE_GUARDED_BY(mutex_);
  size_t sweep_at_ STOCKADE_GUARDED_BY(mutex_);  // Names.
  int64_t last_token_ STOCKADE_GUARDED_BY(mutex_) = 0;
  // Newest steps that no hold or waiter keeps any more, the oldest first: no step is lost on its way here, but an
  // engine before this one, which loses some, may send them again.
  std::deque<EndedHold> ended_ STOCKADE_GUARDED_BY(mutex_);
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_LOCAL_LOCAL_LOCK_ENGINE_H_
