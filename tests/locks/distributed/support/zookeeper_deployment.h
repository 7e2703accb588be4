#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_ZOOKEEPER_DEPLOYMENT_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_ZOOKEEPER_DEPLOYMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "locks/distributed/support/lock_deployment.h"
#include "support/tcp_proxy.h"
#include "zookeeper/support/zookeeper_ensemble.h"
#include "zookeeper/support/zookeeper_server.h"

namespace stockade::testing {

// Three ZooKeeper servers; one alone under a sanitizer, which slows the tests enough. Clients' sessions are as long as
// their watchdog's lease.
class ZooKeeperDeployment final : public ServerDeployment {
 public:
  ZooKeeperDeployment();

  std::unique_ptr<LockService> NewClient(LockServiceOptions options) override;
  // Re-entry makes no node.
  bool reentry_has_new_token() const override { return false; }
  int64_t Queued(const std::string& name) override;

  std::string url() const override;
  // Every waiter watches another node.
  bool Listened(const std::string& name) override { return Queued(name) > 0; }
  absl::Duration HolderAfterlife(absl::Duration watchdog_lease) const override;
  absl::Duration WaiterAfterlife(absl::Duration watchdog_lease) const override;
  void KillConnections() override;
  void Empty() override;
  void RestartAll() override;
  // The leader, which has all that is written.
  void KillServerOf(const std::string& name) override;

 private:
  // One that serves.
  ZooKeeperServer& AnyServer();

  std::unique_ptr<ZooKeeperEnsemble> ensemble_;
  std::unique_ptr<ZooKeeperServer> alone_;  // This and the next: null where there are several.
  std::unique_ptr<TcpProxy> clients_;
};

// How many nodes the lock has, those of its holders and of those who wait.
size_t NodesOfLock(const ZooKeeperServer& server, const std::string& name);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_ZOOKEEPER_DEPLOYMENT_H_
