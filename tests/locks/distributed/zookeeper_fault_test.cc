// Cases 15 to 18 where servers of an ensemble are killed, stand still, or are cut off from each other while their
// clients still reach them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lease_witness.h"
#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "locks/distributed/support/zookeeper_deployment.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"
#include "zookeeper/support/zookeeper_ensemble.h"

namespace stockade {
namespace {

using testing::Await;
using testing::ConnectLockService;
using testing::IsFree;
using testing::kLongLease;
using testing::kPatience;
using testing::kSlack;
using testing::LeaseWitness;
using testing::LostSignal;
using testing::MustAcquire;
using testing::MustAcquirePatiently;
using testing::NodesOfLock;
using testing::Stopwatch;
using testing::ZooKeeperEnsemble;

constexpr size_t kSize = ZooKeeperEnsemble::kSize;
// Shorter than a server that is cut off, or follows one, takes to notice; and longer.
constexpr absl::Duration kShortSession = absl::Seconds(1);
constexpr absl::Duration kLongSession = absl::Seconds(3);
// Longer than an election with all that comes before it.
constexpr absl::Duration kPatientSession = absl::Seconds(12);

enum class Trouble { kKilled, kPaused, kCutOff };
struct Scene {
  const char* name;
  bool leader;  // It is the leader that has it, or a follower.
  Trouble trouble;
  absl::Duration session;
};

void PrintTo(const Scene& scene, std::ostream* out) { *out << scene.name; }

class ZooKeeperFaultTest : public ::testing::TestWithParam<Scene> {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_ZOOKEEPER();
    static ZooKeeperEnsemble servers;  // Takes longer to start than most tests do to run.
    servers_ = &servers;
    servers_->Repair();
  }

  std::unique_ptr<LockService> ClientOf(const std::string& url, absl::Duration session) {
    return ConnectLockService(url, {.watchdog_lease = session, .engine_timeout = kPatience});
  }

  void Make(Trouble trouble, size_t victim) {
    switch (trouble) {
      case Trouble::kKilled: return servers_->server(victim).Kill();
      case Trouble::kPaused: return servers_->server(victim).Pause();
      case Trouble::kCutOff: return servers_->CutOff(victim);
    }
  }

  void AwaitNodes(const std::string& name, size_t count) {
    const auto& server = servers_->server(servers_->LeaderIndex());
    Await("nodes of a lock", [&] { return NodesOfLock(server, name) == count; });
  }

  // Another one for each test.
  static std::string Name() { return ::testing::UnitTest::GetInstance()->current_test_info()->name(); }

  ZooKeeperEnsemble* servers_ = nullptr;
};

class HolderOnServerTest : public ZooKeeperFaultTest {};

INSTANTIATE_TEST_SUITE_P(, HolderOnServerTest,
                         ::testing::Values(Scene{"LeaderKilled", true, Trouble::kKilled, kLongSession},
                                           Scene{"LeaderPaused", true, Trouble::kPaused, kLongSession},
                                           Scene{"LeaderPausedShortSession", true, Trouble::kPaused, kShortSession},
                                           Scene{"LeaderCutOff", true, Trouble::kCutOff, kLongSession},
                                           Scene{"LeaderCutOffShortSession", true, Trouble::kCutOff, kShortSession},
                                           Scene{"FollowerCutOff", false, Trouble::kCutOff, kLongSession},
                                           Scene{"FollowerCutOffShortSession", false, Trouble::kCutOff, kShortSession}),
                         [](const auto& param) { return param.param.name; });

// Its client knows no other server.
TEST_P(HolderOnServerTest, Holder_ItsServerIsLost_KnowsItBeforeTheWaiterEnters) {
  const size_t victim = GetParam().leader ? servers_->LeaderIndex() : servers_->FollowerIndex();
  const auto mine = ClientOf(servers_->url(victim), GetParam().session);
  const auto others = ClientOf(servers_->url_without(victim), kPatientSession);
  const std::string name = Name();
  const auto& leader = servers_->server(servers_->LeaderIndex());
  LockLease lease;
  std::future<LockLease> waiter;
  // A busy machine may end a short session before the trouble begins.
  for (int attempt = 0; attempt < 20 && !lease.valid(); ++attempt) {
    if (waiter.valid()) {
      EXPECT_TRUE(waiter.get().valid());
    }
    lease = MustAcquire(*mine, name);
    waiter = std::async(std::launch::async, [&] {
      LockLease next = MustAcquire(*others, name);
      EXPECT_FALSE(lease.valid()) << "two hold it";
      return next;
    });
    Await("a holder and a waiter", [&] { return !lease.valid() || NodesOfLock(leader, name) == 2; });
  }
  ASSERT_TRUE(lease.valid());
  LostSignal lost(lease.lost());
  Make(GetParam().trouble, victim);
  LockLease next = waiter.get();
  EXPECT_TRUE(next.valid());
  EXPECT_GT(next.fencing_token().value_or(-1), lease.fencing_token().value_or(0));
  EXPECT_TRUE(lost.Await());
  EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);

  servers_->Repair();
  EXPECT_TRUE(next.valid()) << "the old holder has taken it away";
  EXPECT_FALSE(IsFree(*mine, name, LockKind::kReentrant));
  EXPECT_TRUE(next.Release().ok());
  const LockLease again = MustAcquire(*mine, name);
  EXPECT_GT(again.fencing_token().value_or(-1), next.fencing_token().value_or(0));
}

class EveryServerTest : public ZooKeeperFaultTest {};

INSTANTIATE_TEST_SUITE_P(, EveryServerTest,
                         ::testing::Values(Scene{"LeaderKilled", true, Trouble::kKilled, kPatientSession},
                                           Scene{"LeaderPaused", true, Trouble::kPaused, kPatientSession},
                                           Scene{"LeaderCutOff", true, Trouble::kCutOff, kPatientSession},
                                           Scene{"FollowerCutOff", false, Trouble::kCutOff, kPatientSession}),
                         [](const auto& param) { return param.param.name; });

// Their clients know all servers: what one of them has promised, the others keep.
TEST_P(EveryServerTest, HolderAndWaiter_AServerIsLost_GoOnAsIfNothingWere) {
  const size_t victim = GetParam().leader ? servers_->LeaderIndex() : servers_->FollowerIndex();
  const auto mine = ClientOf(servers_->url(), GetParam().session);
  const auto others = ClientOf(servers_->url(), GetParam().session);
  const std::string name = Name();
  LockLease lease = MustAcquire(*mine, name);
  std::future<LockLease> waiter = std::async(std::launch::async, [&] { return MustAcquire(*others, name); });
  AwaitNodes(name, 2);
  Make(GetParam().trouble, victim);
  servers_->AwaitLeaderOtherThan(victim);
  EXPECT_EQ(MustAcquire(*mine, name).hold_count(), 2) << "re-entry";
  EXPECT_TRUE(MustAcquire(*mine, name + " another").valid());
  EXPECT_TRUE(lease.valid());
  const absl::Status released = lease.Release();
  EXPECT_TRUE(released.ok()) << released;
  LockLease next = waiter.get();
  EXPECT_TRUE(next.valid());
  EXPECT_GT(next.fencing_token().value_or(-1), lease.fencing_token().value_or(0));
  servers_->Repair();
  EXPECT_TRUE(next.valid());
  EXPECT_TRUE(next.Release().ok());
  AwaitNodes(name, 0);  // No node is left that nobody wants.
}

// Two of three are away: who is left must not answer for them.
TEST_F(ZooKeeperFaultTest, Acquire_NoMajority_IsUnavailableInTimeAndTheHolderLosesIt) {
  constexpr absl::Duration kTimeout = absl::Milliseconds(500);
  const auto locks = ConnectLockService(servers_->url(), {.watchdog_lease = kShortSession, .engine_timeout = kTimeout});
  const std::string name = Name();
  LockLease lease = MustAcquirePatiently(*locks, name);
  LostSignal lost(lease.lost());
  const size_t left = servers_->FollowerIndex();
  for (size_t i = 0; i < kSize; ++i) {
    if (i != left) servers_->server(i).Kill();
  }
  const Stopwatch since;
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    const Stopwatch watch;
    const absl::Status status = locks->Acquire(name + " another", testing::NewOwner({.kind = kind})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << LockKindName(kind) << ": " << status;
    EXPECT_LT(watch.elapsed(), kTimeout + kSlack) << LockKindName(kind);
  }
  EXPECT_TRUE(lost.Await());
  EXPECT_LT(since.elapsed(), kShortSession + 4 * kTimeout + kSlack);
  EXPECT_FALSE(lease.valid());
  servers_->Repair();
  // As soon as its client has found them again.
  Await("the lock", [&] { return locks->Acquire(name, {.wait = kPatience}).ok(); });
}

// One client a server, all after one lock, whatever happens to whichever server.
TEST_F(ZooKeeperFaultTest, Contenders_ServersComeAndGo_NeverTwoAndNothingHangs) {
  const uint64_t seed = testing::Seed();
  SCOPED_TRACE("STOCKADE_TEST_SEED=" + std::to_string(seed));
  constexpr int kThreads = 2 * kSize;
  constexpr absl::Duration kTimeout = absl::Milliseconds(500);
  std::array<std::unique_ptr<LockService>, kSize> services;
  for (size_t i = 0; i < kSize; ++i) {
    services[i] = ConnectLockService(i == 0 ? servers_->url() : servers_->url(i),
                                     {.watchdog_lease = kShortSession, .engine_timeout = kTimeout});
  }
  const std::string name = Name();
  LeaseWitness witness;
  std::atomic<bool> over = false;
  std::atomic<int64_t> acquired = 0;
  testing::RunThreads(kThreads + 1, [&](int thread) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(thread));
    if (thread == kThreads) {
      for (int64_t step = 0; step < testing::Scaled(4, 60); ++step) {
        const size_t victim = random() % kSize;
        Make(static_cast<Trouble>(random() % 3), victim);
        servers_->AwaitLeaderOtherThan(victim);
        const int64_t enough = acquired + static_cast<int64_t>(random() % 32);
        Await("somebody to enter", [&] { return acquired > enough; });
        servers_->Repair();
      }
      over = true;
      return;
    }
    LockService& locks = *services[static_cast<size_t>(thread) % kSize];
    while (!over) {
      const LeaseWitness::Before before = witness.Look(name);
      const Stopwatch watch;
      absl::StatusOr<LockLease> lease = locks.Acquire(name, {.wait = absl::Milliseconds(1 << random() % 10)});
      EXPECT_LT(watch.elapsed(), absl::Seconds(1) + 4 * kTimeout + kSlack) << lease.status();
      if (!lease.ok()) {
        EXPECT_TRUE(absl::IsDeadlineExceeded(lease.status()) || absl::IsUnavailable(lease.status())) << lease.status();
        continue;
      }
      witness.Acquired(*lease, before);
      ++acquired;
      witness.Write(*lease);
      witness.BeforeRelease(*lease);
      const absl::Status released = lease->Release();
      EXPECT_TRUE(released.ok() || absl::IsFailedPrecondition(released) || absl::IsUnavailable(released)) << released;
    }
  });
  for (auto& service : services) service.reset();
  AwaitNodes(name, 0);
}

TEST(ZooKeeperRestoreTest, ServersComeBackWithoutTheirData_IsLostAndFreeForAll) {
  STOCKADE_NEEDS_ZOOKEEPER();
  testing::ZooKeeperServer server;
  const LockServiceOptions options = {.watchdog_lease = testing::kKeptLease, .engine_timeout = kPatience};
  const auto mine = ConnectLockService(server.url(), options);
  const auto others = ConnectLockService(server.url(), options);
  // Transaction numbers of the new servers are to be behind what these clients have seen.
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(MustAcquire(*mine, "seat").Release().ok());
  LockLease lease = MustAcquire(*mine, "seat");
  LostSignal lost(lease.lost());
  server.RestartEmpty();
  EXPECT_TRUE(lost.Await());
  EXPECT_FALSE(lease.valid());
  EXPECT_TRUE(testing::MustAcquirePatiently(*others, "seat").Release().ok());
  EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(testing::MustAcquirePatiently(*mine, "seat").valid());
}

}  // namespace
}  // namespace stockade
