#include "locks/distributed/support/zookeeper_deployment.h"

#include <utility>

#include "locks/distributed/support/connect_lock_service.h"
#include "stockade/base/percent_coding.h"
#include "support/scale.h"
#include "zookeeper/support/raw_zookeeper.h"

namespace stockade::testing {

ZooKeeperDeployment::ZooKeeperDeployment() {
  if (!kSanitized) {
    ensemble_ = std::make_unique<ZooKeeperEnsemble>();
    return;
  }
  alone_ = std::make_unique<ZooKeeperServer>();
  clients_ = std::make_unique<TcpProxy>(alone_->port());
}

ZooKeeperServer& ZooKeeperDeployment::AnyServer() {
  return ensemble_ == nullptr ? *alone_ : ensemble_->server(ensemble_->LeaderIndex());
}

std::unique_ptr<LockService> ZooKeeperDeployment::NewClient(LockServiceOptions options) {
  return ConnectLockService(url(), std::move(options));
}

std::string ZooKeeperDeployment::url() const {
  if (ensemble_ != nullptr) return ensemble_->url();
  const uint16_t port = clients_->port();
  return ZooKeeperUrl({&port, 1}, alone_->tick());
}

size_t NodesOfLock(const ZooKeeperServer& server, const std::string& name) {
  const auto nodes = RawZooKeeper(server.port()).Children("/stockade/locks/" + base_internal::PercentEncode(name));
  return nodes ? nodes->size() : 0;
}

// The first one holds.
int64_t ZooKeeperDeployment::Queued(const std::string& name) {
  const size_t nodes = NodesOfLock(AnyServer(), name);
  return nodes == 0 ? 0 : static_cast<int64_t>(nodes) - 1;
}

// Its session, which may have been heard of at its end, and which the leader ends at a tick.
absl::Duration ZooKeeperDeployment::HolderAfterlife(absl::Duration watchdog_lease) const {
  return watchdog_lease + 2 * ZooKeeperServerOptions().tick;
}

absl::Duration ZooKeeperDeployment::WaiterAfterlife(absl::Duration watchdog_lease) const {
  return HolderAfterlife(watchdog_lease);
}

void ZooKeeperDeployment::KillConnections() {
  if (ensemble_ == nullptr) return clients_->CloseAll();
  for (size_t i = 0; i < ZooKeeperEnsemble::kSize; ++i) ensemble_->clients(i).CloseAll();
}

void ZooKeeperDeployment::Empty() { AnyServer().Wipe(); }

void ZooKeeperDeployment::RestartAll() {
  if (ensemble_ == nullptr) return alone_->Restart();
  ensemble_->RestartAll();
}

void ZooKeeperDeployment::KillServerOf(const std::string&) {
  ZooKeeperServer& server = AnyServer();
  server.Kill();
  if (ensemble_ != nullptr) ensemble_->LeaderIndex();
  server.Restart();
  if (ensemble_ != nullptr) ensemble_->AwaitSettled();
}

}  // namespace stockade::testing
