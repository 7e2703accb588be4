#include "locks/distributed/support/one_server.h"

#include "redis/support/redis_server.h"
#ifdef STOCKADE_HAS_LOCKS_MYSQL
#include "mysql/support/mariadb_server.h"
#endif
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
#include "zookeeper/support/zookeeper_server.h"
#endif

namespace stockade::testing {
namespace {

template <typename Server>
class Alone : public OneServer {
 public:
  uint16_t port() const override { return server_.port(); }
  void Kill() override { server_.Kill(); }
  void Restart() override { server_.Restart(); }
  void Pause() override { server_.Pause(); }
  void Resume() override { server_.Resume(); }

 protected:
  Server server_;
};

class OneRedis final : public Alone<RedisServer> {
 public:
  std::string UrlOf(uint16_t port) const override { return RedisUrl(port); }
  void Empty() override { server_.Call({"FLUSHALL"}); }
};

#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
class OneZooKeeper final : public Alone<ZooKeeperServer> {
 public:
  std::string UrlOf(uint16_t port) const override { return ZooKeeperUrl({&port, 1}, server_.tick()); }
  bool counts_reentry() const override { return false; }
  void Empty() override { server_.Wipe(); }
};
#endif

#ifdef STOCKADE_HAS_LOCKS_MYSQL
class OneMariaDb final : public Alone<MariaDbServer> {
 public:
  std::string UrlOf(uint16_t port) const override { return MariaDbServer::UrlOf(port); }
  std::vector<LockKind> kinds() const override { return {LockKind::kReentrant, LockKind::kRead, LockKind::kWrite}; }
  void Empty() override { server_.Empty(); }
};
#endif

}  // namespace

std::vector<LockSetup> OneServerSetups() {
  return {
      LockSetup::kStandalone,
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
      LockSetup::kZooKeeper,
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
      LockSetup::kMySql,
#endif
  };
}

std::unique_ptr<OneServer> NewOneServer(LockSetup setup) {
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
  if (setup == LockSetup::kZooKeeper) return std::make_unique<OneZooKeeper>();
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
  if (setup == LockSetup::kMySql) return std::make_unique<OneMariaDb>();
#endif
  (void)setup;
  return std::make_unique<OneRedis>();
}

}  // namespace stockade::testing
