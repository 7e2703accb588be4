#ifndef STOCKADE_TESTS_LOCKS_SERVICE_FLAKY_ENGINE_H_
#define STOCKADE_TESTS_LOCKS_SERVICE_FLAKY_ENGINE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "engines/local/local_lock_engine.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::testing {

// What becomes of a step on its way.
enum class Fault {
  kNone,
  kRefused,      // Not run, and that is known.
  kRequestLost,  // Not run; the outcome is not known.
  kReplyLost,    // Run; the outcome is not known.
};

// What several FlakyEngines share: the locks, the faults, and what was asked.
struct FlakyWorld {
  explicit FlakyWorld(Clock* clock) : engine(clock) {}

  locks_internal::LocalLockEngine engine;

  // Asked for each step; any thread, one at a time. Empty: no faults.
  std::function<Fault(const LockTry&)> on_try = {};
  std::function<Fault(const LockRelease&)> on_release = {};
  std::function<Fault(const LockRenewal&)> on_renewal = {};
  // What holds that are acquired end with, besides their leases.
  std::shared_ptr<const LockSession> session = nullptr;
  std::mutex mutex = {};  // Guards the four.

  std::atomic<int> tries{0};
  std::atomic<int> releases{0};
  std::atomic<int> renewals{0};
  std::atomic<int> watches{0};  // Open now.

  // Counts the step and decides together: what is installed after a step was counted does not apply to it.
  template <typename Decide, typename Step>
  Fault FaultOf(std::atomic<int>& steps, const Decide& decide, const Step& step) {
    const std::lock_guard lock(mutex);
    ++steps;
    return decide ? decide(step) : Fault::kNone;
  }
};

// The engine in memory behind a network that loses things.
class FlakyEngine final : public LockEngine {
 public:
  explicit FlakyEngine(std::shared_ptr<FlakyWorld> world) : world_(std::move(world)) {}

  std::string_view kind() const override { return "flaky"; }
  std::string_view id() const override { return "flaky"; }
  bool Supports(LockKind) const override { return true; }

  void TryMany(std::span<LockTry> tries) override {
    for (LockTry& one : tries) {
      Pass(world_->FaultOf(world_->tries, world_->on_try, one), one, [&] { world_->engine.TryMany({&one, 1}); });
      const std::lock_guard lock(world_->mutex);
      if (one.acquired) one.session = world_->session;
    }
  }

  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override {
    for (LockRenewal& one : renewals) {
      const Fault fault = world_->FaultOf(world_->renewals, world_->on_renewal, one);
      if (fault == Fault::kNone || fault == Fault::kReplyLost) world_->engine.RenewMany({&one, 1}, timeout);
      if (fault != Fault::kNone) one.status = Away();
    }
  }

  void ReleaseMany(std::span<LockRelease> releases) override {
    for (LockRelease& one : releases) {
      Pass(world_->FaultOf(world_->releases, world_->on_release, one), one, [&] { world_->engine.Release(one); });
    }
  }

  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override {
    return world_->engine.Inspect(name, owner, timeout);
  }
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override {
    return world_->engine.ForceRelease(name, timeout);
  }

  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override {
    return std::make_unique<Counted>(world_, world_->engine.Watch(hold, std::move(on_hint)));
  }

 private:
  class Counted final : public LockWatch {
   public:
    Counted(std::shared_ptr<FlakyWorld> world, std::unique_ptr<LockWatch> watch)
        : world_(std::move(world)), watch_(std::move(watch)) {
      ++world_->watches;
    }
    ~Counted() override {
      watch_.reset();
      --world_->watches;
    }

   private:
    const std::shared_ptr<FlakyWorld> world_;
    std::unique_ptr<LockWatch> watch_;
  };

  static absl::Status Away() { return absl::UnavailableError("the network lost it"); }

  template <typename Step, typename Run>
  static void Pass(Fault fault, Step& step, Run run) {
    if (fault == Fault::kNone || fault == Fault::kReplyLost) run();
    if (fault == Fault::kNone) return;
    step.status = Away();
    step.outcome_unknown = fault != Fault::kRefused;
  }

  const std::shared_ptr<FlakyWorld> world_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_SERVICE_FLAKY_ENGINE_H_
