// Case 21: who comes first enters first, over all processes.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "locks/distributed/support/lock_suite.h"
#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::AgentProcess;
using testing::Await;
using testing::IsFree;
using testing::kKeptLease;
using testing::kPatience;
using testing::kSlack;
using testing::MustAcquire;
using testing::NewOwner;
using testing::Stopwatch;

class FairSuiteTest : public testing::LockSuiteTest {};
class ProcessFairSuiteTest : public testing::ServerLockSuiteTest {
 protected:
  // Blocks until it has its place behind `before` others.
  size_t BeginWait(AgentProcess& agent, const std::string& name, int64_t before) {
    const size_t command = agent.Begin(Concat("acquire ", name, " fair 30000 0"));
    Await("a place in the queue", [&] { return deployment_->Queued(name) == before + 1; });
    return command;
  }
};

INSTANTIATE_TEST_SUITE_P(Locks, FairSuiteTest, ::testing::ValuesIn(testing::WithFair(testing::LockSetups())),
                         testing::LockSetupName);
INSTANTIATE_TEST_SUITE_P(Locks, ProcessFairSuiteTest, ::testing::ValuesIn(testing::WithFair(testing::ServerSetups())),
                         testing::LockSetupName);

TEST_P(FairSuiteTest, Release_SeveralClientsWait_EnterInTheOrderInWhichTheyCame) {
  constexpr int kWaiters = 9;
  const auto mine = NewClient();
  std::vector<std::unique_ptr<LockService>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(NewClient());
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name, {.kind = LockKind::kFair});
  std::mutex mutex;
  std::vector<int> order;  // Under the fair lock, and under mutex should that fail.
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&, i] {
      const LockLease held = MustAcquire(*clients[static_cast<size_t>(i % 3)], name, {.kind = LockKind::kFair});
      const std::lock_guard lock(mutex);
      order.push_back(i);
    });
    Await("a place in the queue", [&] { return deployment_->Queued(name) == i + 1; });
  }
  EXPECT_TRUE(lease.Release().ok());
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(deployment_->Queued(name), 0);
}

// Redis keeps both kinds in the same hash under the same field.
TEST_P(FairSuiteTest, Acquire_OwnerHoldsItAsTheOtherExclusiveKind_IsFailedPrecondition) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind outer : {LockKind::kFair, LockKind::kReentrant}) {
    const LockKind inner = outer == LockKind::kFair ? LockKind::kReentrant : LockKind::kFair;
    const std::string name = NewName();
    LockLease lease = MustAcquire(*mine, name, {.kind = outer});
    for (const absl::Duration wait : {absl::ZeroDuration(), testing::kPatience}) {
      const absl::StatusOr<LockLease> refused = mine->Acquire(name, {.kind = inner, .wait = wait});
      EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << refused.status();
    }
    EXPECT_TRUE(lease.valid());
    EXPECT_FALSE(IsFree(*others, name, outer));
    EXPECT_TRUE(lease.Release().ok());
    EXPECT_TRUE(MustAcquire(*mine, name, {.kind = inner}).Release().ok());
  }
}

TEST_P(FairSuiteTest, Acquire_AsBothExclusiveKindsAtTheSameMoment_OneOfTheTwoIsRefused) {
  const auto locks = NewClient();
  const std::string name = NewName();
  const LockOwner owner = LockOwner::New();
  for (int64_t round = 0; round < testing::Scaled(30, 300); ++round) {
    std::barrier both(2);
    const auto acquire = [&](LockKind kind) {
      return std::async(std::launch::async, [&, kind] {
        both.arrive_and_wait();
        return locks->Acquire(name, {.kind = kind, .wait = kPatience, .owner = owner});
      });
    };
    auto fair = acquire(LockKind::kFair);
    auto reentrant = acquire(LockKind::kReentrant);
    absl::StatusOr<LockLease> leases[] = {fair.get(), reentrant.get()};
    EXPECT_NE(leases[0].ok(), leases[1].ok()) << leases[0].status() << ", " << leases[1].status();
    for (absl::StatusOr<LockLease>& lease : leases) {
      const absl::Status ended = lease.ok() ? lease->Release() : lease.status();
      EXPECT_EQ(ended.code(), lease.ok() ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition) << ended;
    }
  }
}

TEST_P(FairSuiteTest, Try_SomebodyWaits_DoesNotPassTheQueue) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name, {.kind = LockKind::kFair});
  std::future<LockLease> waiter =
      std::async(std::launch::async, [&] { return MustAcquire(*others, name, {.kind = LockKind::kFair}); });
  Await("a place in the queue", [&] { return deployment_->Queued(name) == 1; });
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_FALSE(IsFree(*mine, name, LockKind::kFair));
  EXPECT_TRUE(waiter.get().valid());
}

TEST_P(ProcessFairSuiteTest, Release_SeveralProcessesWait_EnterInTheOrderInWhichTheyCame) {
  const auto mine = NewClient();
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name, {.kind = LockKind::kFair});
  std::vector<std::unique_ptr<AgentProcess>> agents;
  std::vector<size_t> commands;
  for (int i = 0; i < 3; ++i) {
    agents.push_back(NewAgent());
    commands.push_back(BeginWait(*agents.back(), name, i));
  }
  EXPECT_TRUE(lease.Release().ok());
  for (size_t i = 0; i < agents.size(); ++i) {
    // Had another one entered before it, this would wait until its time is over.
    const std::string held = agents[i]->Answer(commands[i]);
    EXPECT_TRUE(absl::StartsWith(held, "held 0 1 ")) << i << ": " << held;
    EXPECT_EQ(agents[i]->Do("release 0"), "OK");
  }
}

TEST_P(ProcessFairSuiteTest, FirstWaiter_IsKilled_TheNextEntersWithin5Seconds) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::string name = NewName();
  LockLease lease = MustAcquire(*mine, name, {.kind = LockKind::kFair});
  const std::unique_ptr<AgentProcess> agent = NewAgent(kKeptLease);
  BeginWait(*agent, name, 0);
  std::future<LockLease> next =
      std::async(std::launch::async, [&] { return MustAcquire(*others, name, {.kind = LockKind::kFair}); });
  Await("a second place in the queue", [&] { return deployment_->Queued(name) == 2; });
  agent->End();
  EXPECT_TRUE(lease.Release().ok());
  const Stopwatch watch;
  EXPECT_TRUE(next.get().valid());
  EXPECT_LT(watch.elapsed(), servers_->WaiterAfterlife(kKeptLease) + kSlack);
}

TEST_P(ProcessFairSuiteTest, Clocks_AnHourApart_EverybodyEntersAgainAndAgain) {
  const testing::TempDir dir;
  const std::string name = NewName();
  const std::string file = dir.File("sum");
  std::vector<std::unique_ptr<AgentProcess>> agents;
  for (const absl::Duration skew : {absl::Hours(1), absl::ZeroDuration(), absl::Hours(-1)}) {
    agents.push_back(NewAgent(testing::kLongLease, skew));
  }
  fclose(fopen(file.c_str(), "w"));
  std::vector<size_t> commands;
  for (const auto& agent : agents) commands.push_back(agent->Begin(Concat("add ", name, " fair ", file, " 2 10")));
  for (size_t i = 0; i < agents.size(); ++i) EXPECT_EQ(agents[i]->Answer(commands[i]), "OK");
}

}  // namespace
}  // namespace stockade
