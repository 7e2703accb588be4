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

// One owner's hold of one lock: what engines count. Read and write holds of one owner are two.
struct HoldKey {
  std::string name = {};                 // Of the lock.
  LockKind kind = LockKind::kReentrant;  // How it is held.
  OwnerId owner = kNoOwner;              // Of this process; an engine tells processes apart.

  friend bool operator==(const HoldKey&, const HoldKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const HoldKey& key) {
    return H::combine(std::move(h), key.name, key.kind, key.owner);
  }
};

// Steps of one hold (tries and releases) are sent one after another and numbered: `sequence` is larger in each step
// than in all before it, and the same where a step is sent again because its outcome is not known. An engine that has
// run a step answers the same when it sees it again (or with a larger token), and refuses (Aborted) a step that is
// older than the newest that it has seen: one that was lost on its way may arrive late, when its owner is elsewhere
// already. A copy of a try that comes when what it got has ended may be refused too, and is where it may come late.
// tests/models/lock_steps.pml is the protocol.
//
// An engine may have a hold for longer than its owner: what has lapsed by our clock, or was lost, ends there later. Who
// comes back meanwhile may be let in by what is left, but gets a larger token. To write where what is left is a read is
// to wait: the service refuses a write of an owner that reads, as far as it knows.
//
// Where a step fails, `outcome_unknown` says that the engine may have run it, or may run it yet.
struct LockTry {
  HoldKey hold = {};                            // What to try.
  absl::Duration lease = absl::ZeroDuration();  // To live from when the engine runs it; a longer life is not cut short.
  uint64_t sequence = 0;                        // Larger than in all steps of this hold before it.
  bool repeated = false;                        // Sent before, or a step before it: its outcome is not known.
  bool first = false;                           // Its owner has no such hold, whatever the engine has.
  bool outside_write = false;                   // kRead: nor has he the lock to write.
  int64_t least_token = 0;  // The fencing token must be at least this, where tokens are the server's time.
  bool queue = false;       // Queues(kind): to take a place in the queue, or keep it. False: enter now or not at all.
  absl::Duration timeout = absl::InfiniteDuration();  // For the answer.

  // Set by the engine. Not OK: there is no answer, or none that says whether it is held.
  absl::Status status = absl::OkStatus();
  bool outcome_unknown = false;  // The engine may have run it, or may run it yet.
  bool refused = false;          // Not OK: this is the engine's answer. Do not send the step again.
  bool acquired = false;
  int64_t hold_count = 0;                               // acquired: of this hold, with this one.
  std::optional<int64_t> fencing_token = std::nullopt;  // acquired: where the engine has them.
  // acquired: what the hold ends with besides its lease, where the engine has such. A hold is in one session for good.
  std::shared_ptr<const LockSession> session = nullptr;
  absl::Duration retry_after = absl::InfiniteDuration();  // Not acquired: when to look again if no hint comes.
};

// One hold that is to live on.
struct LockRenewal {
  HoldKey hold = {};                            // What to renew.
  absl::Duration lease = absl::ZeroDuration();  // To live from when the engine runs it.
  // The newest answered step of this hold. `lease` is at least as long as every lease that this step and those before
  // it left to the owner. So an engine that has run no later step may shorten the hold's life to `lease`, which
  // corrects a time to live that became too long when the engine's clock stepped back. 0: never shorten.
  uint64_t sequence = 0;

  absl::Status status = absl::OkStatus();  // Set by the engine, as in LockTry.
  bool held = false;                       // False: somebody or something took it away.
};

// One step that gives a hold back, or a part of it.
struct LockRelease {
  HoldKey hold = {};      // What to release.
  int64_t keep = 0;       // The count that is to be left, whatever it was: 0 frees the lock.
  uint64_t sequence = 0;  // As in LockTry.
  // A step before it, or this one sent before, may still be on its way: refuse it when it comes.
  bool repeated = false;
  // This one was sent before without `repeated`, and may have been run: an engine that has forgotten the hold since
  // then says `held`.
  bool resent = false;
  // It takes back a try: there need be nothing to release, and a place in the queue is given up.
  bool gives_up = false;
  absl::Duration timeout = absl::InfiniteDuration();  // For the answer.

  absl::Status status = absl::OkStatus();  // Set by the engine, as in LockTry.
  bool outcome_unknown = false;            // The engine may have run it, or may run it yet.
  bool held = false;                       // Whether there was such a hold.
};

// Hears hints until it is destroyed; then none comes any more, and its destructor waits for one that runs, unless it is
// called by it.
class STOCKADE_EXPORT LockWatch {
 public:
  virtual ~LockWatch() = default;
};

// What a lock service stands on: it keeps holds that lapse, with a count for each owner. Waiting, re-entry, watchdogs,
// loss and metrics are the service's. Thread-safe, but for steps of one hold. Nothing here may throw.
class STOCKADE_EXPORT LockEngine {
 public:
  virtual ~LockEngine() = default;

  // "redis": the label `engine` of metrics.
  virtual std::string_view kind() const = 0;
  // LockService::id().
  virtual std::string_view id() const = 0;
  virtual bool Supports(LockKind kind) const = 0;
  // Whether each owner that waits for a lock of this kind has a place in a queue of the engine's, and hints of its own.
  // Otherwise hints are for all who wait in this client, and one of them follows each.
  virtual bool Queues(LockKind kind) const { return kind == LockKind::kFair; }
  // Whether tokens grow whatever server the next one comes from: AcquireOptions::require_growing_token.
  virtual bool TokensSurviveFailover() const { return false; }

  // Each blocks until all are answered, at most the longest time-out, or `timeout`; all are sent together where the
  // engine can. One that fails is no other's failure.
  virtual void TryMany(std::span<LockTry> tries) = 0;
  virtual void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) = 0;
  virtual void Release(LockRelease& release) = 0;

  // What LockService has of the same names stands on. Both block until the answer, at most `timeout`.
  virtual absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) = 0;
  virtual absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) = 0;

  // Calls `on_hint` when a try of this hold may be worth it: after a release, once hints are heard, and whenever they
  // are heard again after a gap. It is short, never waits, and may come for nothing. Does not block for the network.
  // Null: this engine has no hints, and retry_after must do.
  virtual std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) = 0;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_ENGINE_H_
