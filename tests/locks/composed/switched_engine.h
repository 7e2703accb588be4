#ifndef STOCKADE_TESTS_LOCKS_COMPOSED_SWITCHED_ENGINE_H_
#define STOCKADE_TESTS_LOCKS_COMPOSED_SWITCHED_ENGINE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/local/local_lock_engine.h"
#include "stockade/base/clock.h"
#include "stockade/locks/engine_lock_service.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::testing {

struct EngineSwitch {
  std::atomic<bool> away = false;
  std::atomic<int> tries = 0;                           // That it was asked for, away or not.
  std::vector<std::vector<std::string>> releases = {};  // The names of each call, for tests with one thread.
};

// Locks in memory that can be away, as a server can. Does not outlive `control`.
class SwitchedEngine final : public LockEngine {
 public:
  SwitchedEngine(EngineSwitch& control, std::string id) : control_(control), id_(std::move(id)) {}

  std::string_view kind() const override { return "switched"; }
  std::string_view id() const override { return id_; }
  bool Supports(LockKind kind) const override { return locks_.Supports(kind); }

  void TryMany(std::span<LockTry> tries) override {
    control_.tries += static_cast<int>(tries.size());
    if (!control_.away) return locks_.TryMany(tries);
    for (LockTry& step : tries) step.status = Away();
  }
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override {
    if (!control_.away) return locks_.RenewMany(renewals, timeout);
    for (LockRenewal& renewal : renewals) renewal.status = Away();
  }
  void ReleaseMany(std::span<LockRelease> releases) override {
    std::vector<std::string>& names = control_.releases.emplace_back();
    for (const LockRelease& release : releases) names.push_back(release.hold.name);
    if (!control_.away) return locks_.ReleaseMany(releases);
    for (LockRelease& release : releases) release.status = Away();
  }
  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override {
    if (control_.away) return Away();
    return locks_.Inspect(name, owner, timeout);
  }
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override {
    if (control_.away) return Away();
    return locks_.ForceRelease(name, timeout);
  }
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override {
    return locks_.Watch(hold, std::move(on_hint));
  }

 private:
  static absl::Status Away() { return absl::UnavailableError("switched off"); }

  EngineSwitch& control_;
  const std::string id_;
  locks_internal::LocalLockEngine locks_{Clock::System()};
};

inline std::unique_ptr<LockService> SwitchedService(EngineSwitch& control, std::string id,
                                                    LockServiceOptions options = {}) {
  return EngineLockService::Create(std::make_unique<SwitchedEngine>(control, std::move(id)), std::move(options))
      .value();
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_COMPOSED_SWITCHED_ENGINE_H_
