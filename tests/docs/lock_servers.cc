#include "docs/lock_servers.h"

#include <span>

#include "redis/support/redis_server.h"
#include "stockade/locks/redis_lock_service.h"
#ifdef STOCKADE_ALL_LOCK_ENGINES
#include "mysql/support/mariadb_server.h"
#include "stockade/locks/mysql_lock_service.h"
#include "stockade/locks/zookeeper_lock_service.h"
#include "zookeeper/support/zookeeper_server.h"
#endif

namespace stockade::testing {
namespace {

class RedisLockServer final : public LockServer {
 public:
  uint16_t port() const override { return server_.port(); }
  absl::StatusOr<std::unique_ptr<LockService>> Connect(uint16_t port, const LockServiceOptions& options) override {
    return RedisLockService::Connect(RedisUrl(port), {.service = options, .redis = {.metrics = nullptr}});
  }
  void Restart() override { server_.Restart(); }
  void RestartEmpty() override {
    server_.Call({"FLUSHALL"});
    server_.Restart();
  }

 private:
  RedisServer server_{{.appendonly = true}};
};

#ifdef STOCKADE_ALL_LOCK_ENGINES
class ZooKeeperLockServer final : public LockServer {
 public:
  uint16_t port() const override { return server_.port(); }
  absl::StatusOr<std::unique_ptr<LockService>> Connect(uint16_t port, const LockServiceOptions& options) override {
    return ZooKeeperLockService::Connect(ZooKeeperUrl({&port, 1}, server_.tick()), {.service = options});
  }
  void Restart() override { server_.Restart(); }
  void RestartEmpty() override {
    server_.Wipe();
    server_.Restart();
  }

 private:
  ZooKeeperServer server_;
};

class MySqlLockServer final : public LockServer {
 public:
  uint16_t port() const override { return server_.port(); }
  absl::StatusOr<std::unique_ptr<LockService>> Connect(uint16_t port, const LockServiceOptions& options) override {
    // A busy machine takes its time to create the tables.
    return MySqlLockService::Connect(MariaDbServer::UrlOf(port),
                                     {.service = options, .create_schema = true, .connect_timeout = absl::Seconds(20)});
  }
  void Restart() override {
    server_.Kill();  // An orderly end takes it seconds.
    server_.Restart();
  }
  void RestartEmpty() override {
    server_.Query("DELETE FROM test.stockade_lock_holds");
    server_.Query("DELETE FROM test.stockade_locks");
    Restart();
  }

 private:
  MariaDbServer server_;
};
#endif

}  // namespace

std::vector<LockEngineKind> LockEngineKinds() {
#ifdef STOCKADE_ALL_LOCK_ENGINES
  return {LockEngineKind::kRedis, LockEngineKind::kZooKeeper, LockEngineKind::kMySql};
#else
  return {LockEngineKind::kRedis};
#endif
}

std::string_view NameOf(LockEngineKind kind) {
  switch (kind) {
    case LockEngineKind::kZooKeeper: return "ZooKeeper";
    case LockEngineKind::kMySql: return "MySql";
    case LockEngineKind::kRedis: break;
  }
  return "Redis";
}

std::unique_ptr<LockServer> StartLockServer(LockEngineKind kind) {
#ifdef STOCKADE_ALL_LOCK_ENGINES
  if (kind == LockEngineKind::kZooKeeper) return std::make_unique<ZooKeeperLockServer>();
  if (kind == LockEngineKind::kMySql) return std::make_unique<MySqlLockServer>();
#else
  (void)kind;
#endif
  return std::make_unique<RedisLockServer>();
}

}  // namespace stockade::testing
