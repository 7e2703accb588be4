// What answers of the database mean, without one.
#include "mysql_lock_scripts.h"

#include <gtest/gtest.h>

namespace stockade::locks_internal {
namespace {

TEST(MySqlLockScriptsTest, AnswerThatIsNone_IsInternalAndTheStepMayHaveRun) {
  // 1 is "acquired", which needs a count and a token.
  for (const std::optional<int64_t> answer :
       {std::optional<int64_t>(), std::optional<int64_t>(77), std::optional<int64_t>(-1), std::optional<int64_t>(1)}) {
    LockTry step = {.hold = {.name = "stock"}};
    MySqlLockScripts::TakeAnswer({answer, std::nullopt, std::nullopt, std::nullopt}, step);
    EXPECT_EQ(step.status.code(), absl::StatusCode::kInternal) << step.status;
    EXPECT_TRUE(step.outcome_unknown);
    EXPECT_FALSE(step.acquired);
    if (answer == 1) continue;
    LockRelease release = {.hold = {.name = "stock"}};
    EXPECT_FALSE(MySqlLockScripts::TakeAnswer({answer, std::nullopt, std::nullopt}, release));
    EXPECT_EQ(release.status.code(), absl::StatusCode::kInternal) << release.status;
    EXPECT_TRUE(release.outcome_unknown);
  }
}

TEST(MySqlLockScriptsTest, KindThatNoLockHas_IsInternal) {
  for (const int64_t kind : {-1, 1, 4, 1 << 20}) {
    EXPECT_TRUE(absl::IsInternal(MySqlLockScripts::ForceReleaseAnswer({kind, std::nullopt}, "stock").status()));
    EXPECT_TRUE(absl::IsInternal(MySqlLockScripts::InspectAnswer({5, kind, 1, std::nullopt}, "stock").status()));
  }
  EXPECT_TRUE(absl::IsInternal(MySqlLockScripts::InspectAnswer({5, std::nullopt, 1, std::nullopt}, "stock").status()));
}

TEST(MySqlLockScriptsTest, AnswerForNamesThatWereNotAsked_IsIgnored) {
  const MySqlLockScripts::AskRow rows[] = {{0, 0, 5}, {1, 0, 6}, {UINT64_MAX, 2, 7}};
  const std::vector<NameState> states = MySqlLockScripts::AskAnswer(rows, 1);
  ASSERT_EQ(states.size(), 1U);
  EXPECT_TRUE(states[0].held);
  EXPECT_FALSE(states[0].read);
  EXPECT_EQ(states[0].newest, 5U);
}

}  // namespace
}  // namespace stockade::locks_internal
