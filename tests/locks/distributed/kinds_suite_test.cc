// What an acquire of each kind gets from a lock that is held as each kind: the table of docs/DISTRIBUTED_LOCKS.md.
// tests/interop/redisson makes the rows of Java.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "locks/distributed/support/kinds_table.h"
#include "locks/distributed/support/lock_suite.h"

namespace stockade {
namespace {

using testing::KindsRow;
using testing::MustAcquire;

class KindsSuiteTest : public testing::LockSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, KindsSuiteTest, ::testing::ValuesIn(testing::LockSetups()), testing::LockSetupName);

TEST_P(KindsSuiteTest, Acquire_HeldAsEachKind_IsWhatTheTableSays) {
  const auto mine = NewClient();
  const auto others = NewClient();
  const std::vector<LockKind> kinds = Kinds();
  const auto has = [&](LockKind kind) { return std::ranges::find(kinds, kind) != kinds.end(); };
  size_t cells = 0;
  for (const KindsRow& row : testing::KindsTable()) {
    if (row.by.starts_with("Java") || !has(row.held)) continue;
    for (size_t i = 0; i < std::size(testing::kKindsInOrder); ++i) {
      const LockKind asked = testing::kKindsInOrder[i];
      // Each of them once without waiting, and once as somebody who would queue.
      for (const absl::Duration wait : {absl::ZeroDuration(), absl::Milliseconds(30)}) {
        const std::string name = NewName();
        const LockLease held = MustAcquire(*mine, name, {.kind = row.held, .owner = LockOwner::New()});
        const bool same = row.by == "the same owner";
        const bool process = row.by == "another process";
        ASSERT_TRUE(same || process || row.by == "another owner") << row.by;
        const absl::Status answer =
            (process ? *others : *mine)
                .Acquire(name, {.kind = asked, .wait = wait, .owner = same ? held.owner() : LockOwner::New()})
                .status();
        const absl::StatusCode expected = has(asked) ? row.answers[i] : absl::StatusCode::kUnimplemented;
        EXPECT_EQ(answer.code(), expected) << "held as " << LockKindName(row.held) << " by " << row.by << ", asked as "
                                           << LockKindName(asked) << ": " << answer;
        EXPECT_TRUE(held.valid());
        ++cells;
      }
    }
  }
  EXPECT_EQ(cells, kinds.size() * 3 * std::size(testing::kKindsInOrder) * 2);
}

}  // namespace
}  // namespace stockade
