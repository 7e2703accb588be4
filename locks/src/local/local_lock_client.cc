#include "local_lock_client.h"

#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace stockade::internal {
namespace {

// A process that made an owner each microsecond would have as many in nine years.
constexpr int kOwnerBits = 48;

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

void LocalLockClient::Release(LockRelease& release) {
  const OwnerId owner = release.hold.owner;
  release.hold.owner = Global(owner);
  engine_->Release(release);
  release.hold.owner = owner;
}

absl::StatusOr<LockState> LocalLockClient::Inspect(const HoldKey& hold, absl::Duration timeout) {
  return engine_->Inspect(Global(hold), timeout);
}

absl::StatusOr<bool> LocalLockClient::ForceRelease(std::string_view name, LockKind kind, absl::Duration timeout) {
  return engine_->ForceRelease(name, kind, timeout);
}

std::unique_ptr<LockWatch> LocalLockClient::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  return engine_->Watch(Global(hold), std::move(on_hint));
}

std::unique_ptr<LockEngine> NewSharedLocalClient(Clock* clock) {
  struct Shared {
    std::mutex mutex;
    absl::flat_hash_map<Clock*, std::weak_ptr<LocalLockEngine>> engines;
    uint16_t clients = 0;
  };
  static Shared& shared = *new Shared;  // Never destroyed: services may be, and made, by late destructors.
  const std::lock_guard lock(shared.mutex);
  absl::erase_if(shared.engines, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<LocalLockEngine>& known = shared.engines[clock];
  std::shared_ptr<LocalLockEngine> engine = known.lock();
  if (engine == nullptr) known = engine = std::make_shared<LocalLockEngine>(clock);
  return std::make_unique<LocalLockClient>(std::move(engine), ++shared.clients);
}

}  // namespace stockade::internal
