#include "locks/distributed/support/local_clients.h"

#include <mutex>
#include <set>
#include <utility>

#include "engines/local/local_lock_client.h"
#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/locks/engine_lock_service.h"

namespace stockade::testing {

class LocalClients::Shared {
 public:
  locks_internal::LocalLockEngine& engine() { return engine_; }

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
  locks_internal::LocalLockEngine engine_{Clock::System()};
  mutable std::mutex mutex_;
  std::set<std::pair<std::string, OwnerId>> queued_;
};

class LocalClients::Client final : public locks_internal::LocalLockClient {
 public:
  Client(std::shared_ptr<Shared> shared, uint16_t client)
      : LocalLockClient({shared, &shared->engine()}, client), shared_(std::move(shared)) {}

  void TryMany(std::span<LockTry> tries) override {
    LocalLockClient::TryMany(tries);
    for (const LockTry& one : tries) shared_->Note(one);
  }
  void ReleaseMany(std::span<LockRelease> releases) override {
    LocalLockClient::ReleaseMany(releases);
    for (const LockRelease& one : releases) shared_->Note(one);
  }

 private:
  const std::shared_ptr<Shared> shared_;
};

LocalClients::LocalClients() : shared_(std::make_shared<Shared>()) {}

LocalClients::~LocalClients() = default;

std::unique_ptr<LockService> LocalClients::New(LockServiceOptions options) {
  auto client = std::make_unique<Client>(shared_, ++clients_);
  absl::StatusOr<std::unique_ptr<LockService>> service =
      EngineLockService::Create(std::move(client), std::move(options));
  if (!service.ok()) base_internal::Fatal(service.status().ToString());
  return *std::move(service);
}

int64_t LocalClients::Queued(const std::string& name) const { return shared_->Queued(name); }

}  // namespace stockade::testing
