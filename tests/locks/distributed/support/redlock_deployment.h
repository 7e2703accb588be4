#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_REDLOCK_DEPLOYMENT_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_REDLOCK_DEPLOYMENT_H_

#include <memory>
#include <string>
#include <vector>

#include "locks/distributed/support/lock_deployment.h"
#include "redis/support/redis_server.h"

namespace stockade::testing {

// Five servers that know nothing of each other.
class RedlockDeployment final : public ServerDeployment {
 public:
  RedlockDeployment();

  std::unique_ptr<LockService> NewClient(LockServiceOptions options) override;
  std::vector<LockKind> kinds() const override { return {LockKind::kReentrant}; }
  bool has_tokens() const override { return false; }
  int64_t Queued(const std::string& name) override;

  std::string url() const override;
  // By each server.
  bool Listened(const std::string& name) override;
  void KillConnections() override;
  void Empty() override;
  void RestartAll() override;
  // All of them, but two at a time.
  void KillServerOf(const std::string& name) override;

 private:
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_REDLOCK_DEPLOYMENT_H_
