// Cases 15 and 17 where the database stands still for longer than a lease. What else may happen to it, the suite and
// the other tests of faults make of every engine.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "mysql/support/mariadb_server.h"
#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade {
namespace {

using testing::ConnectLockService;
using testing::kKeptLease;
using testing::kLongLease;
using testing::kPatience;
using testing::LostSignal;
using testing::MustAcquire;

// The database's clock goes on meanwhile.
TEST(MySqlFaultTest, Holder_ServerStandsStillPastTheLease_KnowsItBeforeTheWaiterEnters) {
  STOCKADE_NEEDS_MARIADB();
  testing::MariaDbServer server;
  const auto mine = ConnectLockService(server.url(), {.watchdog_lease = kKeptLease, .engine_timeout = kPatience});
  const auto others = ConnectLockService(server.url(), {.watchdog_lease = kLongLease, .engine_timeout = kPatience});
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kWrite}) {
    const std::string name(LockKindName(kind));
    LockLease lease = MustAcquire(*mine, name, {.kind = kind});
    LostSignal lost(lease.lost());
    std::future<LockLease> waiter = std::async(std::launch::async, [&] {
      LockLease next = MustAcquire(*others, name, {.kind = kind});
      EXPECT_FALSE(lease.valid()) << "two hold it";
      return next;
    });
    server.Pause();
    EXPECT_TRUE(lost.Await()) << name;
    EXPECT_FALSE(lease.valid()) << name;
    server.Resume();
    LockLease next = waiter.get();
    EXPECT_TRUE(next.valid()) << name;
    EXPECT_GT(next.fencing_token().value_or(-1), lease.fencing_token().value_or(0)) << name;
    EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition) << name;
    EXPECT_TRUE(next.valid()) << "the old holder has taken it away";
    EXPECT_TRUE(next.Release().ok()) << name;
  }
}

// The replica of `primary` that applies nothing from now on.
std::unique_ptr<testing::MariaDbServer> ReplicaThatStopped(testing::MariaDbServer& primary) {
  primary.Query("GRANT REPLICATION SLAVE ON *.* TO stockade@'127.0.0.1'");
  auto replica = std::make_unique<testing::MariaDbServer>(testing::MariaDbServerOptions{.flags = {"--server-id=2"}});
  replica->Query(base_internal::Concat("CHANGE MASTER TO master_host='127.0.0.1', master_port=", primary.port(),
                                       ", master_user='stockade', master_password='secret'"));
  replica->Query("START SLAVE");
  testing::Await("the replica", [&] {
    const auto names = replica->TryQuery("SELECT name FROM test.stockade_locks WHERE name='replicated'");
    return names.has_value() && !names->empty();
  });
  replica->Query("STOP SLAVE");
  return replica;
}

TEST(MySqlFaultTest, AsynchronousReplicaTakesOver_TwoOwnersUntilTheNextRenewalAndTheOlderTokenIsSmaller) {
  STOCKADE_NEEDS_MARIADB();
  constexpr absl::Duration kLease = absl::Seconds(15);
  testing::MariaDbServer primary({.flags = {"--log-bin=binlog", "--server-id=1"}});
  testing::TcpProxy proxy(primary.port());
  const std::string url = testing::MariaDbServer::UrlOf(proxy.port());
  const auto mine = ConnectLockService(url, {.watchdog_lease = kLease, .engine_timeout = kPatience});
  const auto others = ConnectLockService(url, {.watchdog_lease = kLease, .engine_timeout = kPatience});
  LockLease kept = MustAcquire(*mine, "replicated");
  const auto replica = ReplicaThatStopped(primary);
  LockLease missed = MustAcquire(*mine, "missed");
  LostSignal lost(missed.lost());

  primary.Kill();
  proxy.SwitchTo(replica->port());
  LockLease second = MustAcquire(*others, "missed");
  EXPECT_TRUE(missed.valid());
  EXPECT_TRUE(second.valid());
  EXPECT_LT(missed.fencing_token().value_or(0), second.fencing_token().value_or(0));
  EXPECT_FALSE(testing::IsFree(*others, "replicated", LockKind::kReentrant)) << "the replica had it";
  EXPECT_TRUE(lost.Await()) << "the next renewal does not show it";
  EXPECT_FALSE(missed.valid());
  EXPECT_TRUE(second.valid());
  EXPECT_TRUE(kept.Release().ok());
}

}  // namespace
}  // namespace stockade
