#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "locks/distributed/support/lock_suite.h"

namespace stockade {
namespace {

using testing::MustAcquire;

class TokenSuiteTest : public testing::LockSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, TokenSuiteTest, ::testing::ValuesIn(testing::WithoutRedlock(testing::LockSetups())),
                         testing::LockSetupName);

TEST_P(TokenSuiteTest, FencingToken_EveryAcquire_IsLargerThanAllBefore) {
  const auto first = NewClient();
  const auto second = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    int64_t newest = 0;
    const auto grows = [&](const LockLease& lease) {
      const absl::StatusOr<int64_t> token = lease.fencing_token();
      ASSERT_TRUE(token.ok()) << token.status();
      EXPECT_GT(*token, newest) << LockKindName(kind);
      newest = *token;
    };
    for (int i = 0; i < 5; ++i) {
      const LockLease lease = MustAcquire(i % 2 == 0 ? *first : *second, name, {.kind = kind});
      grows(lease);
      grows(MustAcquire(i % 2 == 0 ? *first : *second, name, {.kind = kind}));
    }
  }
}

}  // namespace
}  // namespace stockade
