#ifndef STOCKADE_LOCKS_SRC_SERVICE_ACQUISITION_H_
#define STOCKADE_LOCKS_SRC_SERVICE_ACQUISITION_H_

#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "hold.h"
#include "stockade/base/instant.h"
#include "stockade/locks/acquire_options.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/locks/lock_lease.h"
#include "wait_room.h"

namespace stockade::locks_internal {

// One acquire, from its first try to its outcome, in steps; who drives it decides on which threads, one at a time:
//
//   until done(): where Look() says so, BeginTry(), the engine, EndTry(); otherwise wait until woken or look_at().
//
// Unanswered tries are sent again under their number, for engine_timeout; then the acquire fails, and what it may have
// left is taken back.
class Acquisition {
 public:
  // `options` are valid, and have an owner unless `thread` is the owner. `waiter` is the driver, and outlives this;
  // `may_block`: it can wait for other steps of the hold, and for a release.
  Acquisition(ServiceCore& core, std::string_view name, const AcquireOptions& options,
              std::optional<std::thread::id> thread, Waiter& waiter, bool may_block);
  ~Acquisition();
  Acquisition(const Acquisition&) = delete;
  Acquisition& operator=(const Acquisition&) = delete;

  // Takes the steps of its hold. False: there is an outcome already; or, unless it may block, another step is on its
  // way.
  bool BeginTry();
  // To be run by the engine between BeginTry() and EndTry(), which gives the steps back.
  LockTry& call() { return call_; }
  void EndTry();

  // Whether a try is to follow; otherwise there is an outcome, or it is to be asked again at look_at() or once woken.
  bool Look();
  Instant look_at() const { return look_at_; }

  const std::string& name() const { return key_.name; }
  bool done() const { return outcome_.has_value(); }
  // Once, when done.
  absl::StatusOr<LockLease> TakeOutcome() { return *std::move(outcome_); }

 private:
  bool OwnerHolds(LockKind kind);
  // FailedPrecondition: what the owner holds already keeps it from this kind.
  absl::Status CheckOtherHolds();
  // `due_since`: when the call would have sent the try if no other step had been on its way.
  void OnFailure(Instant now, Instant due_since);
  void OnBusy(Instant now);
  void Fail(absl::Status status);
  absl::Status Busy() const;

  ServiceCore& core_;
  const AcquireOptions options_;
  Waiter& waiter_;
  const std::optional<std::thread::id> thread_;
  const bool may_block_;
  const HoldKey key_;
  const std::shared_ptr<HoldRecord> record_;
  const Instant began_;
  const Instant give_up_at_;
  LockTry call_;
  bool tried_ = false;
  bool unanswered_ = false;         // The last try may have been run, or may be yet.
  bool copied_ = false;             // The last try has been sent before.
  bool may_hold_remotely_ = false;  // A try without an answer, or one that is not wanted any more, may have acquired.
  bool waits_ = false;              // In the room.
  bool queued_ = false;             // In the engine's queue, as far as is known.
  bool entered_ = false;            // The outcome is a lease.
  Instant sent_;                    // For the first time under this number: the engine may have run it then.
  std::optional<Instant> step_since_;  // Since when the next try has been due, while another step is on its way.
  // Since when the engine has not answered; the next try is then at look_at_.
  std::optional<Instant> failing_since_;
  absl::Duration pause_;
  Instant look_at_ = Instant::InfinitePast();
  std::optional<absl::StatusOr<LockLease>> outcome_;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_ACQUISITION_H_
