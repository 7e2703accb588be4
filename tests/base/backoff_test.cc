#include "stockade/base/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace stockade::base_internal {
namespace {

TEST(BackoffTest, Next_DoublesToItsBound_AtRandomInTheUpperHalf) {
  Backoff backoff(absl::Milliseconds(10), absl::Milliseconds(100), 1);
  for (const int span : {10, 20, 40, 80, 100, 100, 100}) {
    const absl::Duration next = backoff.Next();
    EXPECT_GE(next, absl::Milliseconds(span) / 2);
    EXPECT_LE(next, absl::Milliseconds(span));
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(10));
}

TEST(BackoffTest, Next_OfManyClients_IsSpread) {
  std::set<absl::Duration> nexts;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    nexts.insert(Backoff(absl::Milliseconds(10), absl::Seconds(1), seed).Next());
  }
  EXPECT_GT(nexts.size(), 90);
}

}  // namespace
}  // namespace stockade::base_internal
