#include "locks/distributed/support/lock_deployment.h"

#include <map>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/local_clients.h"
#include "locks/distributed/support/redlock_deployment.h"
#ifdef STOCKADE_HAS_LOCKS_MYSQL
#include "locks/distributed/support/mysql_deployment.h"
#endif
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
#include "locks/distributed/support/zookeeper_deployment.h"
#endif
#include "redis/support/redis_deployment.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

class LocalDeployment final : public LockDeployment {
 public:
  std::unique_ptr<LockService> NewClient(LockServiceOptions options) override { return clients_.New(options); }
  int64_t Queued(const std::string& name) override { return clients_.Queued(name); }

 private:
  LocalClients clients_;
};

class RedisLockDeployment final : public ServerDeployment {
 public:
  explicit RedisLockDeployment(RedisSetup setup) : servers_(setup, SentinelSetOptions().down_after) {}

  std::unique_ptr<LockService> NewClient(LockServiceOptions options) override {
    return ConnectLockService(url(), options);
  }
  int64_t Queued(const std::string& name) override {
    return std::stoll(servers_.Call(name, {"LLEN", base_internal::Concat("redisson_lock_queue:{", name, "}")}).text);
  }

  std::string url() const override { return servers_.url(); }
  bool Listened(const std::string& name) override {
    const std::string channel = base_internal::Concat("redisson_lock__channel:{", name, "}");
    const char* const count = servers_.cluster() != nullptr ? "SHARDNUMSUB" : "NUMSUB";
    return std::stoll(servers_.Call(name, {"PUBSUB", count, channel}).ValueOf(channel)) > 0;
  }
  void KillConnections() override { servers_.KillConnections(); }
  void Empty() override { servers_.FlushData(); }
  void RestartAll() override { servers_.RestartAll(); }

  void KillServerOf(const std::string& name) override {
    if (servers_.sentinels() != nullptr) {
      const uint16_t dead = servers_.sentinels()->master_port();
      servers_.sentinels()->KillMaster();
      servers_.sentinels()->ServerOn(dead).Restart();
      servers_.sentinels()->AwaitSettled();
    } else if (servers_.cluster() != nullptr) {
      RedisServer& node = servers_.cluster()->NodeOf(name);
      node.Kill();
      node.Restart();
      servers_.cluster()->AwaitSettled();
    } else {
      servers_.server()->Kill();
      servers_.server()->Restart();
    }
  }

 private:
  RedisDeployment servers_;
};

RedisSetup RedisSetupOf(LockSetup setup) {
  switch (setup) {
    case LockSetup::kSentinel: return RedisSetup::kSentinel;
    case LockSetup::kCluster: return RedisSetup::kCluster;
    default: return RedisSetup::kStandalone;
  }
}

std::unique_ptr<ServerDeployment> NewServers(LockSetup setup) {
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
  if (setup == LockSetup::kZooKeeper) return std::make_unique<ZooKeeperDeployment>();
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
  if (setup == LockSetup::kMySql) return std::make_unique<MySqlDeployment>();
#endif
  if (setup == LockSetup::kRedlock) return std::make_unique<RedlockDeployment>();
  return std::make_unique<RedisLockDeployment>(RedisSetupOf(setup));
}

}  // namespace

std::vector<LockSetup> ServerSetups() {
  std::vector<LockSetup> setups = {LockSetup::kStandalone, LockSetup::kRedlock};
  if (!kSanitized) setups.insert(setups.end(), {LockSetup::kSentinel, LockSetup::kCluster});
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
  setups.push_back(LockSetup::kZooKeeper);
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
  setups.push_back(LockSetup::kMySql);
#endif
  return setups;
}

std::vector<LockSetup> LockSetups() {
  std::vector<LockSetup> setups = ServerSetups();
  setups.insert(setups.begin(), LockSetup::kLocal);
  return setups;
}

std::vector<LockSetup> WithoutRedlock(std::vector<LockSetup> setups) {
  std::erase(setups, LockSetup::kRedlock);
  return setups;
}

std::vector<LockSetup> WithFair(std::vector<LockSetup> setups) {
  setups = WithoutRedlock(std::move(setups));
  std::erase(setups, LockSetup::kMySql);
  return setups;
}

std::string LockSetupName(const ::testing::TestParamInfo<LockSetup>& setup) {
  switch (setup.param) {
    case LockSetup::kLocal: return "Local";
    case LockSetup::kStandalone: return "Standalone";
    case LockSetup::kSentinel: return "Sentinel";
    case LockSetup::kCluster: return "Cluster";
    case LockSetup::kRedlock: return "Redlock";
    case LockSetup::kZooKeeper: return "ZooKeeper";
    case LockSetup::kMySql: return "MySql";
  }
  return "";
}

std::vector<LockKind> LockDeployment::kinds() const {
  return {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite};
}

LockDeployment& DeploymentOf(LockSetup setup) {
  if (setup != LockSetup::kLocal) return ServersOf(setup);
  static LocalDeployment local;
  return local;
}

ServerDeployment& ServersOf(LockSetup setup) {
  if (setup == LockSetup::kLocal) base_internal::Fatal("the local set-up has no servers");
  static std::map<LockSetup, std::unique_ptr<ServerDeployment>> deployments;
  std::unique_ptr<ServerDeployment>& deployment = deployments[setup];
  if (deployment == nullptr) deployment = NewServers(setup);
  return *deployment;
}

}  // namespace stockade::testing
