// What answers of the database mean, without one.
#include "mysql_lock_scripts.h"

#include <gtest/gtest.h>

namespace stockade::locks_internal {
namespace {

TEST(MySqlLockScriptsTest, AnswerThatIsNone_IsInternalAndTheStepMayHaveRun) {
  for (const MySqlRows& rows : {MySqlRows(), MySqlRows({{std::nullopt}}), MySqlRows({{"77", "1"}})}) {
    MySqlReply reply;
    reply.results = {rows};
    LockTry step = {.hold = {.name = "stock"}};
    MySqlLockScripts::TakeAnswer(reply, step);
    EXPECT_EQ(step.status.code(), absl::StatusCode::kInternal) << step.status;
    EXPECT_TRUE(step.outcome_unknown);
    EXPECT_FALSE(step.acquired);
    LockRelease release = {.hold = {.name = "stock"}};
    EXPECT_FALSE(MySqlLockScripts::TakeAnswer(reply, release));
    EXPECT_EQ(release.status.code(), absl::StatusCode::kInternal) << release.status;
    EXPECT_TRUE(release.outcome_unknown);
  }
}

}  // namespace
}  // namespace stockade::locks_internal
