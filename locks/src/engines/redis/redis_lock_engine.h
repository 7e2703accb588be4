#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_ENGINE_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_ENGINE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis_lock_commands.h"
#include "stockade/base/instant.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/locks/redis_lock_service.h"
#include "stockade/redis/redis_client.h"

namespace stockade::locks_internal {

// Locks on one server, behind Sentinels or on a cluster.
class RedisLockEngine final : public LockEngine {
 public:
  // Blocks and fails as RedisClient::Connect().
  static absl::StatusOr<std::unique_ptr<RedisLockEngine>> Connect(std::string_view url,
                                                                  const RedisLockOptions& options);

  std::string_view kind() const override { return "redis"; }
  std::string_view id() const override { return id_; }
  bool Supports(LockKind) const override { return true; }

  void TryMany(std::span<LockTry> tries) override;
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override;
  void ReleaseMany(std::span<LockRelease> releases) override;
  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override;
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override;
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override;

  const std::string& client_id() const { return client_id_; }

 private:
  RedisLockEngine(std::unique_ptr<RedisClient> client, std::string id, bool cluster, RedisLockDialect dialect,
                  const RedisLockOptions& options);

  // Asks the replicas about those that have been acquired, and takes back what too few of them have.
  void AwaitReplicas(std::span<LockTry> tries, Instant deadline);
  void UndoTry(LockTry& step, const absl::Status& why, absl::Duration timeout);

  // What one command renews: not much, and on a cluster of one slot.
  using Batch = std::vector<LockRenewal*>;
  std::vector<Batch> BatchesOf(std::span<LockRenewal> renewals) const;

  const std::unique_ptr<RedisClient> client_;
  const std::string id_;
  const bool cluster_;
  const std::string client_id_;
  const RedisLockCommands commands_;
  const int min_replicas_;
  const absl::Duration replica_timeout_;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_ENGINE_H_
