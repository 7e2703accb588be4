#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_MYSQL_DEPLOYMENT_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_MYSQL_DEPLOYMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "locks/distributed/support/lock_deployment.h"
#include "mysql/support/mariadb_server.h"

namespace stockade::testing {

class MySqlDeployment final : public ServerDeployment {
 public:
  std::unique_ptr<LockService> NewClient(LockServiceOptions options) override;
  std::vector<LockKind> kinds() const override { return {LockKind::kReentrant, LockKind::kRead, LockKind::kWrite}; }
  int64_t Queued(const std::string& name) override;

  std::string url() const override { return server_.url(); }
  // MySQL notifies no client: waiters poll, and this looks for their queries.
  bool Listened(const std::string& name) override;
  void KillConnections() override { server_.KillConnections(); }
  // The tables stay.
  void Empty() override { server_.Empty(); }
  void RestartAll() override { server_.Restart(); }
  void KillServerOf(const std::string& name) override;

 private:
  MariaDbServer server_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_MYSQL_DEPLOYMENT_H_
