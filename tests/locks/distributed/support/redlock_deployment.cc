#include "locks/distributed/support/redlock_deployment.h"

#include <algorithm>
#include <utility>

#include "locks/distributed/support/connect_lock_service.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

RedlockDeployment::RedlockDeployment() {
  for (int i = 0; i < 5; ++i) {
    // Written before it is answered, so that a killed server forgets nothing; on the disk later, which only a machine's
    // end would show.
    servers_.push_back(
        std::make_unique<RedisServer>(RedisServerOptions{.appendonly = true, .config = {"appendfsync no"}}));
  }
}

std::unique_ptr<LockService> RedlockDeployment::NewClient(LockServiceOptions options) {
  return ConnectLockService(url(), std::move(options));
}

int64_t RedlockDeployment::Queued(const std::string& name) {
  base_internal::Fatal(base_internal::Concat("RedLock has no fair locks, such as ", name));
}

std::string RedlockDeployment::url() const {
  std::string url(kRedlockScheme);
  for (const auto& server : servers_) url += (server == servers_.front() ? "" : ",") + server->url();
  return url;
}

bool RedlockDeployment::Listened(const std::string& name) {
  const std::string channel = base_internal::Concat("redisson_lock__channel:{", name, "}");
  return std::all_of(servers_.begin(), servers_.end(), [&](const auto& server) {
    return std::stoll(server->Call({"PUBSUB", "NUMSUB", channel}).ValueOf(channel)) > 0;
  });
}

void RedlockDeployment::KillConnections() {
  for (const auto& server : servers_) server->KillConnections();
}

void RedlockDeployment::Empty() {
  for (const auto& server : servers_) server->Call({"FLUSHALL"});
}

void RedlockDeployment::RestartAll() {
  for (const auto& server : servers_) server->Stop();
  for (const auto& server : servers_) server->Restart();
}

void RedlockDeployment::KillServerOf(const std::string&) {
  for (size_t i = 0; i < servers_.size(); ++i) {
    RedisServer* const pair[] = {servers_[i].get(), servers_[(i + 1) % servers_.size()].get()};
    for (RedisServer* const server : pair) server->Kill();
    for (RedisServer* const server : pair) server->Restart();
  }
}

}  // namespace stockade::testing
