// Case 12: one holder at a time, of all clients.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "locks/distributed/support/lock_suite.h"
#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/temp_dir.h"

namespace stockade {
namespace {

using testing::AgentProcess;
using testing::RunThreads;
using testing::Scaled;

class ExclusionSuiteTest : public testing::LockSuiteTest {};
class ProcessExclusionSuiteTest : public testing::ServerLockSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, ExclusionSuiteTest, ::testing::ValuesIn(testing::LockSetups()), testing::LockSetupName);
INSTANTIATE_TEST_SUITE_P(Locks, ProcessExclusionSuiteTest, ::testing::ValuesIn(testing::ServerSetups()),
                         testing::LockSetupName);

constexpr int kClients = 4;
constexpr int kThreadsEach = 4;

TEST_P(ExclusionSuiteTest, Acquire_ClientsWithThreads_LoseNoAddition) {
  std::vector<std::unique_ptr<LockService>> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(NewClient());
  const int64_t times = std::max<int64_t>(1, Scaled(480, 16'000) / (kClients * kThreadsEach));
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    std::atomic<int64_t> sum = 0;
    RunThreads(kClients * kThreadsEach, [&](int thread) {
      for (int64_t i = 0; i < times; ++i) {
        absl::StatusOr<LockLease> lease =
            clients[static_cast<size_t>(thread % kClients)]->Acquire(name, {.kind = kind});
        ASSERT_TRUE(lease.ok()) << lease.status();
        // Two steps, so that somebody between them is seen.
        const int64_t seen = sum.load(std::memory_order_relaxed);
        sum.store(seen + 1, std::memory_order_relaxed);
        const absl::Status released = lease->Release();
        ASSERT_TRUE(released.ok()) << released;
      }
    });
    EXPECT_EQ(sum, kClients * kThreadsEach * times) << LockKindName(kind);
  }
}

// The same with releases that nobody waits for, by owners that come again at once. What an owner has taken since stays.
TEST_P(ExclusionSuiteTest, ReleaseAsync_OwnersThatEnterAgain_LoseNoAddition) {
  constexpr int kOwners = 4;
  const std::unique_ptr<LockService> client = NewClient();
  const int64_t times = std::max<int64_t>(2, Scaled(120, 4'000) / kOwners);
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    std::atomic<int64_t> sum = 0, released = 0;
    RunThreads(kOwners, [&](int) {
      const LockOwner owner = LockOwner::New();
      for (int64_t i = 0; i < times; ++i) {
        LockLease lease = testing::MustAcquire(*client, name, {.kind = kind, .owner = owner});
        const int64_t seen = sum.load(std::memory_order_relaxed);
        sum.store(seen + 1, std::memory_order_relaxed);
        EXPECT_TRUE(lease.valid());
        lease.ReleaseAsync([&](const absl::Status& status) {
          EXPECT_TRUE(status.ok()) << status;
          ++released;
        });
      }
    });
    testing::Await("the releases", [&] { return released == kOwners * times; });
    EXPECT_EQ(sum, kOwners * times) << LockKindName(kind);
    EXPECT_TRUE(testing::IsFree(*client, name, kind)) << LockKindName(kind);
  }
}

TEST_P(ProcessExclusionSuiteTest, Acquire_ProcessesWithThreads_LoseNoAddition) {
  const testing::TempDir dir;
  std::vector<std::unique_ptr<AgentProcess>> agents;
  for (int i = 0; i < kClients; ++i) agents.push_back(NewAgent());
  for (const LockKind kind : ExclusiveKinds()) {
    const int64_t total = kind == LockKind::kReentrant ? Scaled(2'000, 160'000) : Scaled(480, 16'000);
    const int64_t times = std::max<int64_t>(1, total / (kClients * kThreadsEach));
    const std::string file = dir.File(std::string(LockKindName(kind)));
    std::ofstream(file) << 0;
    const std::string add =
        base_internal::Concat("add ", NewName(), " ", LockKindName(kind), " ", file, " ", kThreadsEach, " ", times);
    std::vector<size_t> running;
    for (const auto& agent : agents) running.push_back(agent->Begin(add));
    for (size_t i = 0; i < agents.size(); ++i) EXPECT_EQ(agents[i]->Answer(running[i]), "OK");
    int64_t sum = 0;
    std::ifstream(file) >> sum;
    EXPECT_EQ(sum, kClients * kThreadsEach * times) << LockKindName(kind);
  }
}

}  // namespace
}  // namespace stockade
