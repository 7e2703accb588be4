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
    const auto token_of = [](const LockLease& lease) {
      const absl::StatusOr<int64_t> token = lease.fencing_token();
      EXPECT_TRUE(token.ok()) << token.status();
      return token.value_or(-1);
    };
    for (int i = 0; i < 5; ++i) {
      LockService& locks = i % 2 == 0 ? *first : *second;
      const LockLease lease = MustAcquire(locks, name, {.kind = kind});
      EXPECT_GT(token_of(lease), newest) << LockKindName(kind);
      newest = token_of(MustAcquire(locks, name, {.kind = kind}));
      if (deployment_->reentry_has_new_token()) {
        EXPECT_GT(newest, token_of(lease)) << LockKindName(kind);
      } else {
        EXPECT_EQ(newest, token_of(lease)) << LockKindName(kind);
      }
    }
  }
}

}  // namespace
}  // namespace stockade
