#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"

namespace stockade {
namespace {

using testing::LostSignal;
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

// The engine may have it for a little longer than its owner: that is no re-entry.
TEST_P(TokenSuiteTest, FencingToken_OwnerIsBackAsSoonAsItsLeaseIsOver_IsLarger) {
  const auto locks = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    for (const LockKind next_kind : kind == LockKind::kWrite ? std::vector{kind, LockKind::kRead} : std::vector{kind}) {
      const std::string name = NewName();
      const LockLease over = MustAcquire(*locks, name, {.kind = kind, .lease = testing::kShortLease});
      EXPECT_TRUE(LostSignal(over.lost()).Await());
      const LockLease next = MustAcquire(*locks, name, {.kind = next_kind});
      EXPECT_EQ(next.hold_count(), 1);
      EXPECT_GT(next.fencing_token().value_or(-1), over.fencing_token().value_or(0)) << LockKindName(next_kind);
      EXPECT_FALSE(over.valid());
    }
  }
}

}  // namespace
}  // namespace stockade
