#include "locks/distributed/support/one_server.h"

#include <utility>

#include "redis/support/redis_server.h"
#include "stockade/base/strings.h"
#ifdef STOCKADE_HAS_LOCKS_MYSQL
#include "mysql/support/mariadb_server.h"
#endif
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
#include "zookeeper/support/raw_zookeeper.h"
#include "zookeeper/support/zookeeper_server.h"
#endif

namespace stockade::testing {
namespace {

template <typename Server>
class Alone : public OneServer {
 public:
  template <typename... Options>
  explicit Alone(Options... options) : server_(std::move(options)...) {}

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
  explicit OneRedis(bool forgetful) : Alone(RedisServerOptions{.appendonly = !forgetful}) {}

  std::string UrlOf(uint16_t port) const override { return RedisUrl(port); }
  void Empty() override { server_.Call({"FLUSHALL"}); }
  void Unsettle() override {
    server_.Call({"SCRIPT", "FLUSH"});
    server_.Call({"CLIENT", "KILL", "TYPE", "pubsub"});
  }
  bool listened() override { return !server_.Call({"PUBSUB", "CHANNELS"}).items.empty(); }
  std::string Remains(absl::Duration within) override {
    std::string remains;
    for (const RawReply& key : server_.Call({"KEYS", "*"}).items) {
      const int64_t left_ms = std::stoll(server_.Call({"PTTL", key.text}).text);
      const bool record =
          key.text.find(":stockade:") != std::string::npos && left_ms >= 0 && absl::Milliseconds(left_ms) <= within;
      const bool token = key.text.starts_with("redisson_lock_token:");
      if (!record && !token && left_ms != -2) remains += base_internal::Concat(key.text, " (", left_ms, " ms) ");
    }
    return remains;
  }
};

#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
class OneZooKeeper final : public Alone<ZooKeeperServer> {
 public:
  std::string UrlOf(uint16_t port) const override { return ZooKeeperUrl({&port, 1}, server_.tick()); }
  bool counts_reentry() const override { return false; }
  void Empty() override { server_.Wipe(); }
  // Not the locks themselves, which it deletes once they have been empty for a while.
  std::string Remains(absl::Duration) override {
    std::string remains;
    RawZooKeeper nodes(server_.port());
    const std::string root = "/stockade/locks";
    for (const std::string& lock : nodes.Children(root).value_or(std::vector<std::string>())) {
      for (const std::string& node : nodes.Leaves(root + "/" + lock)) remains += node + " ";
    }
    return remains;
  }
};
#endif

#ifdef STOCKADE_HAS_LOCKS_MYSQL
class OneMariaDb final : public Alone<MariaDbServer> {
 public:
  std::string UrlOf(uint16_t port) const override { return MariaDbServer::UrlOf(port); }
  std::vector<LockKind> kinds() const override { return {LockKind::kReentrant, LockKind::kRead, LockKind::kWrite}; }
  void Empty() override { server_.Empty(); }
  std::string Remains(absl::Duration) override {
    std::string remains;
    for (const auto& row : server_.Query("SELECT name, hold_count FROM test.stockade_lock_holds WHERE hold_count > 0 "
                                         "AND expires_at > UNIX_TIMESTAMP(NOW(6)) * 1000000")) {
      remains += base_internal::Concat(row[0], " (", row[1], ") ");
    }
    return remains;
  }
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

std::unique_ptr<OneServer> NewOneServer(LockSetup setup, bool forgetful) {
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
  if (setup == LockSetup::kZooKeeper) return std::make_unique<OneZooKeeper>();
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
  if (setup == LockSetup::kMySql) return std::make_unique<OneMariaDb>();
#endif
  (void)setup;
  return std::make_unique<OneRedis>(forgetful);
}

}  // namespace stockade::testing
