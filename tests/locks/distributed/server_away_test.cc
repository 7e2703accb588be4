// Case 17, while the server is away.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "locks/distributed/support/one_server.h"
#include "redis/support/redis_server.h"
#include "stockade/locks/acquire_all.h"
#include "support/await.h"
#include "support/server_clock.h"
#ifdef STOCKADE_HAS_LOCKS_MYSQL
#include "mysql/support/mariadb_server.h"
#endif

// Only in builds with a sanitizer.
extern "C" [[gnu::weak]] void __sanitizer_symbolize_pc(void* pc, const char* format, char* text, size_t size);

namespace stockade {
namespace {

using testing::Await;
using testing::ConnectLockService;
using testing::kKeptLease;
using testing::kLongLease;
using testing::kSlack;
using testing::LockSetup;
using testing::LostSignal;
using testing::MustAcquire;
using testing::MustAcquirePatiently;
using testing::OneServer;
using testing::RedisServer;
using testing::Stopwatch;

constexpr absl::Duration kTimeout = testing::kSanitized ? absl::Seconds(2) : absl::Milliseconds(500);

class ServerAwayTest : public ::testing::TestWithParam<LockSetup> {
 protected:
  void SetUp() override {
    testing::NeedServersOf(GetParam());
    if (IsSkipped() || HasFatalFailure()) return;
    server_ = testing::NewOneServer(GetParam());
    locks_ = ConnectLockService(server_->url(), {.watchdog_lease = kKeptLease, .engine_timeout = kTimeout});
  }

  void ExpectUnavailableInTime() {
    for (const LockKind kind : server_->kinds()) {
      const Stopwatch watch;
      const absl::Status status = locks_->Acquire("another", {.kind = kind}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << LockKindName(kind) << ": " << status;
      EXPECT_LT(watch.elapsed(), kTimeout + kSlack) << LockKindName(kind);
    }
    EXPECT_EQ(locks_->Inspect("another").status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(locks_->ForceRelease("another").status().code(), absl::StatusCode::kUnavailable);
  }

  std::unique_ptr<OneServer> server_;
  std::unique_ptr<LockService> locks_;
};

// Until it is destroyed, the process has no file descriptor left, also if a thread closes one: those of the standard
// streams, which nobody closes, are all that the limit allows. The others stay usable, three at a time in a poll().
class NoDescriptor {
 public:
  NoDescriptor() {
    // A sanitizer needs descriptors when it first looks for the names that its suppressions have.
    char name[64];
    if (__sanitizer_symbolize_pc != nullptr)
      __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name, sizeof name);
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit lower = before_;
    lower.rlim_cur = STDERR_FILENO + 1;
    setrlimit(RLIMIT_NOFILE, &lower);
    EXPECT_EQ(open("/dev/null", O_RDONLY | O_CLOEXEC), -1);
  }
  ~NoDescriptor() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptor(const NoDescriptor&) = delete;
  NoDescriptor& operator=(const NoDescriptor&) = delete;

 private:
  rlimit before_ = {};
};

// One that forgets all when it ends: Redis's.
class ForgetfulServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>();
  }

  std::unique_ptr<RedisServer> server_;
};

INSTANTIATE_TEST_SUITE_P(Locks, ServerAwayTest, ::testing::ValuesIn(testing::OneServerSetups()),
                         testing::LockSetupName);

TEST_P(ServerAwayTest, Acquire_ServerIsDead_IsUnavailableWithinTheTimeoutUntilItIsBack) {
  server_->Kill();
  ExpectUnavailableInTime();
  server_->Restart();
  // To reconnect may take a busy machine longer than one call has.
  testing::Await("a lock of the server that is back", [&] { return locks_->Acquire("another").ok(); });
}

TEST_P(ServerAwayTest, Acquire_ServerStandsStill_IsUnavailableWithinTheTimeoutUntilItGoesOn) {
  server_->Pause();
  ExpectUnavailableInTime();
  server_->Resume();
  testing::Await("a lock of the server that goes on", [&] { return locks_->Acquire("another").ok(); });
}

TEST_P(ServerAwayTest, Acquire_NoDescriptorIsLeft_IsResourceExhaustedBeforeTheTimeout) {
  const auto locks = ConnectLockService(
      server_->url(), {.watchdog_lease = 20 * testing::kPatience, .engine_timeout = 10 * testing::kPatience});
  EXPECT_TRUE(MustAcquire(*locks, "ticket").valid());
  server_->Kill();
  {
    const NoDescriptor none;
    const Stopwatch watch;
    for (const LockKind kind : server_->kinds()) {
      const absl::Status status = locks->Acquire("another", {.kind = kind}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << LockKindName(kind) << ": " << status;
    }
    EXPECT_LT(watch.elapsed(), 5 * testing::kPatience);
  }
  server_->Restart();
  testing::Await("a lock once there are descriptors", [&] { return locks->Acquire("another").ok(); });
}

TEST_P(ServerAwayTest, ReleaseOfMany_ServerStandsStill_EndsWithinOneTimeout) {
  constexpr absl::Duration kOne = absl::Seconds(3);
  constexpr int kLocks = 40;
  const auto locks = ConnectLockService(server_->url(), {.watchdog_lease = 10 * kLongLease, .engine_timeout = kOne});
  std::vector<LockLease> leases;
  for (int i = 0; i < kLocks; ++i) leases.push_back(MustAcquirePatiently(*locks, "many" + std::to_string(i)));
  LockLeases all(std::move(leases));
  server_->Pause();
  const Stopwatch watch;
  const absl::Status released = all.Release();
  EXPECT_EQ(released.code(), absl::StatusCode::kUnavailable) << released;
  EXPECT_LT(watch.elapsed(), kOne + kSlack);
  server_->Resume();
  // In the background.
  testing::Await("the releases", [&] {
    for (int i = 0; i < kLocks; ++i) {
      const absl::StatusOr<LockState> state = locks->Inspect("many" + std::to_string(i));
      if (!state.ok() || state->locked) return false;
    }
    return true;
  });
}

TEST_P(ServerAwayTest, Stop_ServerStandsStill_IsCancelledAtOnce) {
  const auto patient =
      ConnectLockService(server_->url(), {.watchdog_lease = kLongLease, .engine_timeout = 10 * testing::kPatience});
  EXPECT_TRUE(MustAcquire(*patient, "seat").valid());
  server_->Pause();
  std::stop_source stop;
  auto blocked =
      std::async(std::launch::async, [&] { return patient->Acquire("seat", {.stop = stop.get_token()}).status(); });
  std::promise<absl::Status> told;
  patient->AcquireAsync("another", {.stop = stop.get_token()},
                        [&told](absl::StatusOr<LockLease> lease) { told.set_value(lease.status()); });
  ExpectUnavailableInTime();  // Until that is so, the two have been sent.
  const Stopwatch watch;
  stop.request_stop();
  EXPECT_EQ(blocked.get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(told.get_future().get().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(watch.elapsed(), testing::kPatience);
  server_->Resume();
}

TEST_P(ServerAwayTest, Holder_ServerStaysAway_LosesItWithItsLease) {
  LockLease lease = MustAcquirePatiently(*locks_, "seat");
  LostSignal lost(lease.lost());
  server_->Kill();
  const Stopwatch watch;
  EXPECT_TRUE(lost.Await());
  EXPECT_LT(watch.elapsed(), kKeptLease + kSlack);
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ForgetfulServerTest, Holder_ComesBackEmpty_LearnsIt) {
  const auto locks =
      ConnectLockService(server_->url(), {.watchdog_lease = kLongLease, .engine_timeout = testing::kPatience});
  LockLease lease = MustAcquire(*locks, "seat");
  server_->Kill();
  server_->Restart();
  EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);
  const LockLease next = MustAcquire(*locks, "seat");
  EXPECT_GT(next.fencing_token().value_or(0), lease.fencing_token().value_or(-1));
}

TEST_P(ServerAwayTest, Release_ServerStandsStill_IsUnavailableWithinTheTimeoutAndNotRenewed) {
  LockLease lease = MustAcquirePatiently(*locks_, "seat");
  server_->Pause();
  const Stopwatch watch;
  const absl::Status refused = lease.Release();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_LT(watch.elapsed(), kTimeout + kSlack);
  server_->Resume();
  const auto others =
      ConnectLockService(server_->url(), {.watchdog_lease = kLongLease, .engine_timeout = testing::kPatience});
  EXPECT_TRUE(MustAcquire(*others, "seat").valid());
}

TEST_F(ForgetfulServerTest, HolderAndWaiter_DiesAndIsBackEmpty_LearnItWithinARenewal) {
  constexpr absl::Duration kRenewal = absl::Seconds(4);
  // Longer than it is away.
  const LockServiceOptions patient = {.watchdog_lease = 3 * kRenewal, .engine_timeout = testing::kPatience};
  const auto mine = ConnectLockService(server_->url(), patient);
  const auto others = ConnectLockService(server_->url(), patient);
  LockLease lease = MustAcquire(*mine, "seat");
  LostSignal lost(lease.lost());
  std::future<LockLease> waiter = std::async(std::launch::async, [&] { return MustAcquire(*others, "seat"); });
  Await("a listener", [&] { return server_->Info("pubsub_channels") != "0"; });
  server_->Kill();
  server_->Restart();
  const Stopwatch watch;
  EXPECT_TRUE(waiter.get().valid());
  EXPECT_TRUE(lost.Await());
  EXPECT_LT(watch.elapsed(), kRenewal + kSlack);
  EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);
}

// Several together, of which one cannot be had.
TEST_P(ServerAwayTest, AcquireAll_OneServiceIsAway_IsUnavailableAndHoldsNone) {
  const std::unique_ptr<OneServer> other_server = testing::NewOneServer(GetParam());
  const auto others = ConnectLockService(other_server->url(), {.watchdog_lease = kLongLease});
  server_->Kill();
  for (const std::string first : {"a", "z"}) {  // Whichever comes first in their order.
    const std::vector<LockTarget> targets = {{.service = others.get(), .name = first},
                                             {.service = locks_.get(), .name = "m"}};
    const absl::StatusOr<LockLeases> refused = AcquireAll(targets, {.wait = testing::kPatience});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable) << refused.status();
    EXPECT_FALSE(testing::MustInspect(*others, first).locked);
  }
}

struct ServerWithClock {
  testing::ServerClock clock;
  std::string url;
  std::shared_ptr<void> server;
};

void Start(ServerWithClock& with, LockSetup setup) {
#ifdef STOCKADE_HAS_LOCKS_MYSQL
  if (setup == LockSetup::kMySql) {
    const auto server = std::make_shared<testing::MariaDbServer>(
        testing::MariaDbServerOptions{.environment = with.clock.environment()});
    with.url = server->url();
    with.server = server;
    return;
  }
#endif
  (void)setup;
  const auto server =
      std::make_shared<RedisServer>(testing::RedisServerOptions{.environment = with.clock.environment()});
  with.url = server->url();
  with.server = server;
}

class ServerClockTest : public ::testing::TestWithParam<LockSetup> {};

TEST_P(ServerClockTest, SetForwardPastTheLease_OthersEnterAndTheHolderLearnsItAtItsNextRenewal) {
  testing::NeedServersOf(GetParam());
  if (IsSkipped() || HasFatalFailure()) return;
  constexpr absl::Duration kLease = absl::Seconds(24);
  ServerWithClock server;
  Start(server, GetParam());
  const LockServiceOptions options = {.watchdog_lease = kLease, .engine_timeout = testing::kPatience};
  const auto mine = ConnectLockService(server.url, options);
  const auto others = ConnectLockService(server.url, options);
  const Stopwatch watch;
  LockLease lease = MustAcquire(*mine, "seat");
  LostSignal lost(lease.lost());
  server.clock.Step(2 * kLease);
  LockLease next = MustAcquire(*others, "seat");
  const bool valid = lease.valid();
  EXPECT_TRUE(valid || watch.elapsed() > kLease / 3);
  EXPECT_LT(lease.fencing_token().value_or(0), next.fencing_token().value_or(0));
  EXPECT_TRUE(lost.Await());
  EXPECT_FALSE(lease.valid());
  EXPECT_TRUE(next.valid());
}

std::vector<LockSetup> SetupsWithLeasesOfTheServer() {
  std::vector<LockSetup> setups = testing::OneServerSetups();
  std::erase(setups, LockSetup::kZooKeeper);  // Its sessions run by a clock that nobody sets.
  return setups;
}

INSTANTIATE_TEST_SUITE_P(Locks, ServerClockTest, ::testing::ValuesIn(SetupsWithLeasesOfTheServer()),
                         testing::LockSetupName);

}  // namespace
}  // namespace stockade
