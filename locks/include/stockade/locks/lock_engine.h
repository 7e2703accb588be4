#ifndef STOCKADE_LOCKS_LOCK_ENGINE_H_
#define STOCKADE_LOCKS_LOCK_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/locks/acquire_options.h"
#include "stockade/locks/lock_service.h"
#include "stockade/locks/lock_session.h"

namespace stockade {

// One owner's hold of one lock, which is the unit that engines count. Read and write holds of one owner are separate.
struct HoldKey {
  std::string name = {};                 // The lock's name.
  LockKind kind = LockKind::kReentrant;  // The kind of the hold.
  OwnerId owner = kNoOwner;              // An owner of this process; an engine distinguishes processes.

  friend bool operator==(const HoldKey&, const HoldKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const HoldKey& key) {
    return H::combine(std::move(h), key.name, key.kind, key.owner);
  }
};

// The steps of one hold (tries and releases) are sent one after another and numbered. `sequence` increases with each
// new step and stays the same when a step is resent because its outcome is unknown. An engine that has run a step and
// receives it again gives the same answer (or a larger token). It refuses (Aborted) a step that is older than the
// newest one it has seen, because a delayed step may arrive after its owner has given up. It may also refuse a copy of
// a try that arrives after the hold from that try has ended, and does so if such a copy can arrive late.
// tests/models/lock_steps.pml is the protocol.
//
// An engine may keep a hold for longer than its owner: a hold that has expired on our clock, or that was lost, ends
// there later. An owner that returns meanwhile may be admitted by the old hold, but gets a larger token. If the old
// hold is a read, a write of its owner waits until it ends: the service refuses writes only of owners that it knows to
// be reading.
//
// If a step fails, `outcome_unknown` means that the engine may have run it or may still run it.
struct LockTry {
  HoldKey hold = {};                            // The hold to try.
  absl::Duration lease = absl::ZeroDuration();  // From when the engine runs it; never shortens a longer remaining life.
  uint64_t sequence = 0;                        // Larger than in all earlier steps of this hold.
  bool repeated = false;                        // This step or an earlier one was sent before with an unknown outcome.
  bool first = false;                           // The owner has no such hold, even if the engine has one.
  bool outside_write = false;                   // kRead: the owner holds no write lock either.
  int64_t least_token = 0;                      // The smallest fencing token, if tokens are the server's time.
  bool queue = false;  // If Queues(kind): join the queue, or keep the place. False: enter now or fail.
  absl::Duration timeout = absl::InfiniteDuration();  // For the answer.

  // Set by the engine. Not OK: there is no answer, or it does not say whether the lock is held.
  absl::Status status = absl::OkStatus();
  bool outcome_unknown = false;  // The engine may have run it or may still run it.
  bool refused = false;          // Not OK: this is the engine's answer; the step must not be resent.
  bool hold_gone = false;        // Not OK: the engine has removed the hold that the try re-enters.
  bool acquired = false;
  int64_t hold_count = 0;                               // If acquired: the count of this hold, including this step.
  std::optional<int64_t> fencing_token = std::nullopt;  // If acquired and the engine has tokens.
  // If acquired and the engine has sessions: the session that the hold ends with, in addition to its lease. A hold
  // never changes its session.
  std::shared_ptr<const LockSession> session = nullptr;
  absl::Duration retry_after = absl::InfiniteDuration();  // If not acquired: when to try again without a hint.
};

// The renewal of one hold.
struct LockRenewal {
  HoldKey hold = {};                            // The hold to renew.
  absl::Duration lease = absl::ZeroDuration();  // From when the engine runs it.
  // The newest answered step of this hold. `lease` is at least as long as every lease that this step and earlier ones
  // left to the owner. An engine that has run no later step may therefore shorten the hold's life to `lease`, which
  // corrects a time to live that became too long when the engine's clock stepped back. 0: never shorten it.
  uint64_t sequence = 0;

  absl::Status status = absl::OkStatus();  // Set by the engine, as in LockTry.
  bool held = false;                       // False: the engine no longer has the hold.
};

// A step that releases a hold or part of it.
struct LockRelease {
  HoldKey hold = {};      // The hold to release.
  int64_t keep = 0;       // The count that remains; 0 frees the lock.
  uint64_t sequence = 0;  // See LockTry.
  // An earlier step, or an earlier copy of this one, may still arrive; the engine must refuse it then.
  bool repeated = false;
  // A copy of this step was sent without `repeated` and may have been run. An engine that no longer has the hold then
  // sets `held`.
  bool resent = false;
  // Takes back a try: there may be nothing to release, and a place in the queue is given up.
  bool gives_up = false;
  absl::Duration timeout = absl::InfiniteDuration();  // For the answer.

  absl::Status status = absl::OkStatus();  // Set by the engine, as in LockTry.
  bool outcome_unknown = false;            // The engine may have run it or may still run it.
  bool held = false;                       // Whether there was such a hold.
};

// Delivers hints until it is destroyed. The destructor waits for a callback that is running, unless that callback calls
// it; afterwards the callback is not invoked any more.
class STOCKADE_EXPORT LockWatch {
 public:
  virtual ~LockWatch() = default;
};

// The engine of a lock service. It stores holds that expire, with a count per owner. The service implements waiting,
// re-entry, watchdogs, losses and metrics. Thread-safe, except that the steps of one hold are sent one at a time. Must
// not throw.
class STOCKADE_EXPORT LockEngine {
 public:
  virtual ~LockEngine() = default;

  // The value of the metrics label `engine`, such as "redis".
  virtual std::string_view kind() const = 0;
  // See LockService::id().
  virtual std::string_view id() const = 0;
  virtual bool Supports(LockKind kind) const = 0;
  // Whether each owner that waits for a lock of this kind has its own place in the engine's queue, and its own hints.
  // Otherwise a hint is for all waiters of this client, and one of them reacts to it.
  virtual bool Queues(LockKind kind) const { return kind == LockKind::kFair; }
  // Whether tokens increase whichever server issues the next one: see AcquireOptions::require_growing_token.
  virtual bool TokensSurviveFailover() const { return false; }

  // Each blocks until all steps are answered, at most for the longest time-out or `timeout`. If the engine can, it
  // sends all of them together, in their order. A failure of one does not affect the others.
  virtual void TryMany(std::span<LockTry> tries) = 0;
  virtual void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) = 0;
  virtual void ReleaseMany(std::span<LockRelease> releases) = 0;
  void Release(LockRelease& release) { ReleaseMany({&release, 1}); }

  // They implement the functions of these names in LockService. Both block until the answer, at most for `timeout`.
  virtual absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) = 0;
  virtual absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) = 0;

  // Invokes `on_hint` when a new try of this hold may succeed: after a release, when hints begin to arrive, and each
  // time that they arrive again after a gap. `on_hint` is short, never blocks, and may be invoked without a reason.
  // Does not block on the network. Null: this engine has no hints, and the service relies on retry_after.
  virtual std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) = 0;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_ENGINE_H_
