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

}  // namespace
}  // namespace stockade
