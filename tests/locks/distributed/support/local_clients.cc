#include "locks/distributed/support/local_clients.h"

#include <mutex>
#include <set>
#include <utility>

#include "local/local_lock_engine.h"
#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/locks/engine_lock_service.h"

namespace stockade::testing {

class LocalClients::Shared {
 public:
  internal::LocalLockEngine& engine() { return engine_; }

  void Note(const LockTry& step) {
    const std::lock_guard lock(mutex_);
    if (step.acquired) {
      queued_.erase({step.hold.name, step.hold.owner});
    } else if (step.queue) {
      queued_.insert({step.hold.name, step.hold.owner});
    }
  }
  void Note(const LockRelease& step) {
    const std::lock_guard lock(mutex_);
    if (step.gives_up) queued_.erase({step.hold.name, step.hold.owner});
  }
  int64_t Queued(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return std::distance(queued_.lower_bound({name, kNoOwner}), queued_.upper_bound({name, ~OwnerId{0}}));
  }

 private:
  internal::LocalLockEngine engine_{Clock::System()};
  mutable std::mutex mutex_;
  std::set<std::pair<std::string, OwnerId>> queued_;
};

// The engine as one client sees it: an owner's id is of its client only.
class LocalClients::Client final : public LockEngine {
 public:
  Client(Shared* shared, uint64_t client) : shared_(shared), client_(client) {}

  std::string_view kind() const override { return "local"; }
  std::string_view id() const override { return shared_->engine().id(); }
  bool Supports(LockKind) const override { return true; }

  void TryMany(std::span<LockTry> tries) override {
    for (LockTry& step : tries) {
      const OwnerId owner = step.hold.owner;
      step.hold.owner = Global(owner);
      shared_->engine().TryMany({&step, 1});
      shared_->Note(step);
      step.hold.owner = owner;
    }
  }
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override {
    for (LockRenewal& renewal : renewals) {
      const OwnerId owner = renewal.hold.owner;
      renewal.hold.owner = Global(owner);
      shared_->engine().RenewMany({&renewal, 1}, timeout);
      renewal.hold.owner = owner;
    }
  }
  void Release(LockRelease& step) override {
    const OwnerId owner = step.hold.owner;
    step.hold.owner = Global(owner);
    shared_->engine().Release(step);
    shared_->Note(step);
    step.hold.owner = owner;
  }
  absl::StatusOr<LockState> Inspect(const HoldKey& hold, absl::Duration timeout) override {
    return shared_->engine().Inspect(Global(hold), timeout);
  }
  absl::StatusOr<bool> ForceRelease(std::string_view name, LockKind kind, absl::Duration timeout) override {
    return shared_->engine().ForceRelease(name, kind, timeout);
  }
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override {
    return shared_->engine().Watch(Global(hold), std::move(on_hint));
  }

 private:
  OwnerId Global(OwnerId owner) const { return (client_ << 40) | owner; }
  HoldKey Global(HoldKey hold) const {
    hold.owner = Global(hold.owner);
    return hold;
  }

  Shared* const shared_;
  const uint64_t client_;
};

LocalClients::LocalClients() : shared_(std::make_unique<Shared>()) {}

LocalClients::~LocalClients() = default;

std::unique_ptr<LockService> LocalClients::New(LockServiceOptions options) {
  auto client = std::make_unique<Client>(shared_.get(), ++clients_);
  absl::StatusOr<std::unique_ptr<LockService>> service =
      EngineLockService::Create(std::move(client), std::move(options));
  if (!service.ok()) internal::Fatal(service.status().ToString());
  return *std::move(service);
}

int64_t LocalClients::Queued(const std::string& name) const { return shared_->Queued(name); }

}  // namespace stockade::testing
