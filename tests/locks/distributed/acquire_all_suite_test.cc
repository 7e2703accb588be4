// Case 23, on one service.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "stockade/base/strings.h"
#include "stockade/locks/acquire_all.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::IsFree;
using testing::kPatience;
using testing::LostSignal;
using testing::MustAcquire;
using testing::MustInspect;

class AcquireAllSuiteTest : public testing::LockSuiteTest {
 protected:
  static std::vector<std::string> NewNames(int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(NewName());
    return names;
  }
};

INSTANTIATE_TEST_SUITE_P(Locks, AcquireAllSuiteTest, ::testing::ValuesIn(testing::LockSetups()),
                         testing::LockSetupName);

TEST_P(AcquireAllSuiteTest, AcquireAll_AllFree_HoldsEachUntilReleased) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::vector<std::string> names = NewNames(3);
  absl::StatusOr<LockLeases> held = AcquireAll(*mine, names, {.wait = kPatience});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(held->valid());
  EXPECT_EQ(held->leases().size(), names.size());
  for (const std::string& name : names) EXPECT_FALSE(IsFree(*others, name, LockKind::kReentrant));
  const absl::Status released = held->Release();
  EXPECT_TRUE(released.ok()) << released;
  for (const std::string& name : names) EXPECT_TRUE(IsFree(*others, name, LockKind::kReentrant));
}

TEST_P(AcquireAllSuiteTest, AcquireAll_OneIsHeld_HoldsNone) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::vector<std::string> names = NewNames(3);
  for (const std::string& taken : names) {
    const LockLease other = MustAcquire(*others, taken);
    const absl::StatusOr<LockLeases> refused = AcquireAll(*mine, names, {.wait = absl::Milliseconds(100)});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kDeadlineExceeded) << refused.status();
    for (const std::string& name : names) {
      EXPECT_EQ(MustInspect(*mine, name).locked, name == taken);
    }
  }
}

TEST_P(AcquireAllSuiteTest, AcquireAll_NameTwice_IsAcquiredOnce) {
  const auto locks = NewClient();
  const std::string name = NewName();
  const absl::StatusOr<LockLeases> held = AcquireAll(*locks, std::vector{name, name}, {.wait = kPatience});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->leases().size(), 1u);
  EXPECT_EQ(MustInspect(*locks, name).owner_holds, 1);
}

TEST_P(AcquireAllSuiteTest, AcquireAll_CallersInOppositeOrders_NeverWaitForEachOtherInACircle) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::vector<std::string> names = NewNames(4);
  const std::vector<std::string> reversed(names.rbegin(), names.rend());
  const int64_t rounds = testing::Scaled(50, 2'000);
  testing::RunThreads(4, [&](int thread) {
    for (int64_t i = 0; i < rounds; ++i) {
      const absl::StatusOr<LockLeases> held =
          AcquireAll(thread < 2 ? *mine : *others, thread % 2 == 0 ? names : reversed, {.wait = kPatience});
      ASSERT_TRUE(held.ok()) << held.status();
    }
  });
}

TEST_P(AcquireAllSuiteTest, AcquireAll_OneIsTakenAway_AllAreLost) {
  const auto mine = NewClient(testing::kKeptLease);
  const auto others = NewClient();
  const std::vector<std::string> names = NewNames(3);
  absl::StatusOr<LockLeases> held = AcquireAll(*mine, names, {.wait = kPatience});
  ASSERT_TRUE(held.ok()) << held.status();
  LostSignal lost(held->lost());
  ASSERT_TRUE(others->ForceRelease(names[1]).ok());  // If it freed nothing, nothing would be lost.
  EXPECT_TRUE(lost.Await());
  EXPECT_FALSE(held->valid());
  EXPECT_EQ(held->Release().code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& name : names) EXPECT_TRUE(IsFree(*others, name, LockKind::kReentrant));
}

}  // namespace
}  // namespace stockade
