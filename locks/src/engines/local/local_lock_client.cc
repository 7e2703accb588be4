#include "local_lock_client.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "stockade/base/log.h"
#include "stockade/base/mutex.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

// A process that made an owner each microsecond would have as many in nine years.
constexpr int kOwnerBits = 48;
constexpr size_t kMostClients = 60'000;

struct Shared {
  Mutex mutex;
  absl::flat_hash_map<Clock*, std::weak_ptr<LocalLockEngine>> engines STOCKADE_GUARDED_BY(mutex);
  // The numbers in use. A number is used again once all others have been given.
  absl::flat_hash_set<uint16_t> clients STOCKADE_GUARDED_BY(mutex);
  uint16_t newest STOCKADE_GUARDED_BY(mutex) = 0;
};

Shared& TheShared() {
  static Shared& shared = *new Shared;  // Never destroyed: services may be, and made, by late destructors.
  return shared;
}

class SharedLocalClient final : public LocalLockClient {
 public:
  SharedLocalClient(std::shared_ptr<LocalLockEngine> engine, uint16_t client)
      : LocalLockClient(std::move(engine), client), client_(client) {}
  ~SharedLocalClient() override { Forget(); }

 private:
  void Forget() {
    Shared& shared = TheShared();
    const MutexLock lock(shared.mutex);
    shared.clients.erase(client_);
  }

  const uint16_t client_;
};

}  // namespace

LocalLockClient::LocalLockClient(std::shared_ptr<LocalLockEngine> engine, uint16_t client)
    : engine_(std::move(engine)), client_bits_(OwnerId{client} << kOwnerBits) {}

HoldKey LocalLockClient::Global(HoldKey hold) const {
  hold.owner = Global(hold.owner);
  return hold;
}

void LocalLockClient::TryMany(std::span<LockTry> tries) {
  for (LockTry& one : tries) {
    const OwnerId owner = one.hold.owner;
    one.hold.owner = Global(owner);
    engine_->TryMany({&one, 1});
    one.hold.owner = owner;
  }
}

void LocalLockClient::RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) {
  for (LockRenewal& one : renewals) {
    const OwnerId owner = one.hold.owner;
    one.hold.owner = Global(owner);
    engine_->RenewMany({&one, 1}, timeout);
    one.hold.owner = owner;
  }
}

void LocalLockClient::ReleaseMany(std::span<LockRelease> releases) {
  for (LockRelease& one : releases) {
    const OwnerId owner = one.hold.owner;
    one.hold.owner = Global(owner);
    engine_->Release(one);
    one.hold.owner = owner;
  }
}

absl::StatusOr<LockState> LocalLockClient::Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) {
  return engine_->Inspect(name, Global(owner), timeout);
}

absl::StatusOr<std::optional<LockKind>> LocalLockClient::ForceRelease(std::string_view name, absl::Duration timeout) {
  return engine_->ForceRelease(name, timeout);
}

std::unique_ptr<LockWatch> LocalLockClient::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  return engine_->Watch(Global(hold), std::move(on_hint));
}

std::unique_ptr<LockEngine> NewSharedLocalClient(Clock* clock) {
  Shared& shared = TheShared();
  const MutexLock lock(shared.mutex);
  absl::erase_if(shared.engines, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<LocalLockEngine>& known = shared.engines[clock];
  std::shared_ptr<LocalLockEngine> engine = known.lock();
  if (engine == nullptr) known = engine = std::make_shared<LocalLockEngine>(clock);
  if (shared.clients.size() > kMostClients) Fatal(Concat("more than ", kMostClients, " lock services at local:"));
  while (!shared.clients.insert(++shared.newest).second) {
  }
  return std::make_unique<SharedLocalClient>(std::move(engine), shared.newest);
}

}  // namespace stockade::locks_internal
