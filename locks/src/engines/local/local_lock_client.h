#ifndef STOCKADE_LOCKS_SRC_ENGINES_LOCAL_LOCAL_LOCK_CLIENT_H_
#define STOCKADE_LOCKS_SRC_ENGINES_LOCAL_LOCAL_LOCK_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "local_lock_engine.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::locks_internal {

// One of several clients of one engine in memory: its owners are others than those of the other clients, though a
// thread has one id for all, as they would be if each client were a process. Thread-safe.
class LocalLockClient : public LockEngine {
 public:
  // `client`: another one for each client of the engine.
  LocalLockClient(std::shared_ptr<LocalLockEngine> engine, uint16_t client);

  std::string_view kind() const override { return engine_->kind(); }
  std::string_view id() const override { return engine_->id(); }
  bool Supports(LockKind kind) const override { return engine_->Supports(kind); }
  bool TokensSurviveFailover() const override { return true; }

  void TryMany(std::span<LockTry> tries) override;
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override;
  void ReleaseMany(std::span<LockRelease> releases) override;
  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override;
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override;
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override;

 private:
  OwnerId Global(OwnerId owner) const { return client_bits_ | owner; }
  HoldKey Global(HoldKey hold) const;

  const std::shared_ptr<LocalLockEngine> engine_;
  const OwnerId client_bits_;  // Above those that an owner's id ever has.
};

// A client of the engine that all such clients in this process have which decide by this clock; the engine ends with
// the last of them.
STOCKADE_EXPORT std::unique_ptr<LockEngine> NewSharedLocalClient(Clock* clock);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_LOCAL_LOCAL_LOCK_CLIENT_H_
