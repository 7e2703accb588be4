#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_PROXIED_SERVER_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_PROXIED_SERVER_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/one_server.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {

// One server, a client of it by way of a proxy, and one that the proxy's doings do not reach.
class ProxiedServerTest : public ::testing::TestWithParam<LockSetup> {
 protected:
  void SetUp() override {
    NeedServersOf(GetParam());
    if (IsSkipped() || HasFatalFailure()) return;
    server_ = NewOneServer(GetParam());
    proxy_ = std::make_unique<TcpProxy>(server_->port());
    locks_ = NewProxied(*proxy_, {.watchdog_lease = kLongLease, .engine_timeout = kPatience});
    others_ = ConnectLockService(server_->url(), {.watchdog_lease = kLongLease, .engine_timeout = kPatience});
  }

  std::unique_ptr<LockService> NewProxied(const TcpProxy& proxy, LockServiceOptions options) {
    std::unique_ptr<LockService> locks = ConnectLockService(server_->UrlOf(proxy.port()), std::move(options));
    // So that the next reply is not one about connections or scripts.
    for (const LockKind kind : server_->kinds()) {
      const std::string name = base_internal::Concat("ready ", LockKindName(kind), " ", proxy.port());
      const LockLease ready = MustAcquirePatiently(*locks, name, {.kind = kind});
    }
    return locks;
  }

  std::vector<LockKind> ExclusiveKinds() const {
    std::vector<LockKind> kinds = server_->kinds();
    std::erase(kinds, LockKind::kRead);
    return kinds;
  }

  std::unique_ptr<OneServer> server_;
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<LockService> locks_;
  std::unique_ptr<LockService> others_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_PROXIED_SERVER_H_
