#ifndef STOCKADE_TESTS_LOCKS_HOLDER_H_
#define STOCKADE_TESTS_LOCKS_HOLDER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "stockade/locks/lock_engine.h"

namespace stockade::testing {

// One owner of locks of an engine, whose steps are numbered as the engine wants them.
class Holder {
 public:
  Holder(LockEngine& engine, std::string name, LockKind kind = LockKind::kReentrant, LockOwner owner = LockOwner::New())
      : engine_(engine), hold_{.name = std::move(name), .kind = kind, .owner = owner.id()} {}

  LockTry Try(absl::Duration lease = absl::Seconds(30), bool queue = false) {
    ++sequence_;
    return TryAgain(lease, queue);
  }
  // The newest step once more.
  LockTry TryAgain(absl::Duration lease = absl::Seconds(30), bool queue = false) {
    LockTry step = {.hold = hold_, .lease = lease, .sequence = sequence_, .queue = queue, .timeout = absl::Seconds(20)};
    engine_.TryMany({&step, 1});
    return step;
  }
  LockTry Queue(absl::Duration lease = absl::Seconds(30)) { return Try(lease, true); }

  LockRelease Release(int64_t keep = 0, bool repeated = false) {
    return Send({.hold = hold_, .keep = keep, .sequence = ++sequence_, .repeated = repeated});
  }
  LockRelease ReleaseAgain(int64_t keep = 0) {
    return Send({.hold = hold_, .keep = keep, .sequence = sequence_, .repeated = true, .resent = true});
  }
  LockRelease GiveUp(int64_t keep = 0) {
    return Send({.hold = hold_, .keep = keep, .sequence = ++sequence_, .gives_up = true});
  }

  LockRenewal Renew(absl::Duration lease) {
    LockRenewal renewal = {.hold = hold_, .lease = lease, .sequence = sequence_};
    engine_.RenewMany({&renewal, 1}, absl::Seconds(20));
    EXPECT_TRUE(renewal.status.ok()) << renewal.status;
    return renewal;
  }

  LockState Inspect() {
    const absl::StatusOr<LockState> state = engine_.Inspect(hold_.name, hold_.owner, absl::Seconds(20));
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *state : LockState();
  }

  std::unique_ptr<LockWatch> Hear(std::function<void()> on_hint) { return engine_.Watch(hold_, std::move(on_hint)); }

  const HoldKey& hold() const { return hold_; }
  uint64_t sequence() const { return sequence_; }
  void set_sequence(uint64_t sequence) { sequence_ = sequence; }

 private:
  LockRelease Send(LockRelease step) {
    step.timeout = absl::Seconds(20);
    engine_.Release(step);
    return step;
  }

  LockEngine& engine_;
  const HoldKey hold_;
  uint64_t sequence_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_HOLDER_H_
