#ifndef STOCKADE_LOCKS_ENGINE_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_ENGINE_LOCK_SERVICE_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

namespace locks_internal {
class ServiceCore;
// As EngineLockService::Create(). If `degraded`, its leases are degraded() and have no tokens.
STOCKADE_EXPORT absl::StatusOr<std::unique_ptr<LockService>> MakeEngineLockService(std::unique_ptr<LockEngine> engine,
                                                                                   LockServiceOptions options,
                                                                                   bool degraded);
}  // namespace locks_internal

// The LockService on top of any engine: it implements waiting, re-entry, renewal, the detection of losses, and metrics.
class STOCKADE_EXPORT EngineLockService : public LockService {
 public:
  // InvalidArgument: an option is invalid.
  static absl::StatusOr<std::unique_ptr<LockService>> Create(std::unique_ptr<LockEngine> engine,
                                                             LockServiceOptions options = {});
  ~EngineLockService() override;

  absl::StatusOr<LockLease> Acquire(std::string_view name, AcquireOptions options = {}) override;
  void AcquireAsync(std::string_view name, AcquireOptions options, Callback done) override;
  absl::StatusOr<LockState> Inspect(std::string_view name, LockOwner owner) override;
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name) override;
  absl::Status ReleaseAll(Duration timeout) override;
  std::string_view id() const override;

 private:
  friend absl::StatusOr<std::unique_ptr<LockService>> locks_internal::MakeEngineLockService(std::unique_ptr<LockEngine>,
                                                                                            LockServiceOptions, bool);
  explicit EngineLockService(std::shared_ptr<locks_internal::ServiceCore> core);

  const std::shared_ptr<locks_internal::ServiceCore> core_;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_ENGINE_LOCK_SERVICE_H_
