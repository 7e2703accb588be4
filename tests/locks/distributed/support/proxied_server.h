#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_PROXIED_SERVER_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_PROXIED_SERVER_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lock_suite.h"
#include "redis/support/redis_server.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {

// One server, a client of it by way of a proxy, and one that the proxy's doings do not reach.
class ProxiedServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>();
    proxy_ = std::make_unique<TcpProxy>(server_->port());
    locks_ = NewProxied({.watchdog_lease = kLongLease, .engine_timeout = kPatience});
    others_ = ConnectLockService(server_->url(), {.watchdog_lease = kLongLease});
  }

  std::unique_ptr<LockService> NewProxied(LockServiceOptions options) {
    std::unique_ptr<LockService> locks = ConnectLockService(testing::RedisUrl(proxy_->port()), std::move(options));
    // So that the next reply is not one about connections or scripts.
    for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
      const LockLease ready = MustAcquire(*locks, internal::Concat("ready ", LockKindName(kind)), {.kind = kind});
    }
    return locks;
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<LockService> locks_;
  std::unique_ptr<LockService> others_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_PROXIED_SERVER_H_
