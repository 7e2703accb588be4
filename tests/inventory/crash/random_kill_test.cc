// A shop under load is killed at moments that nobody chose, again and again.

#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "inventory/crash/chain.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

// After some answers, and up to some milliseconds more, so that it dies within a commit as well as between two; or
// while it opens the ledger.
Death RandomDeath(std::minstd_rand& random) {
  if (random() % 8 == 0) return {.after_start = absl::Microseconds(random() % 30'000)};
  return {.lines = 1 + random() % (random() % 4 == 0 ? 6'000 : 300),
          .after_lines = absl::Microseconds(random() % 5'000)};
}

TEST(RandomKillTest, KillNine_AtRandomMomentsUnderLoad_KeepsEveryAcknowledgedOrderOnceAndOversellsNothing) {
  constexpr int64_t kRoundsOfOneLedger = 20;
  const int64_t kills = std::max<int64_t>(Scaled(20, 200), 8);
  std::minstd_rand random(20261122);
  uint64_t repeats = 0;
  for (int64_t killed = 0; killed < kills;) {
    Chain chain(
        {.seed = static_cast<uint32_t>(random()), .skus = 1 + static_cast<uint32_t>(random() % 20), .stock = 10}, 8);
    for (int64_t i = 0; i < kRoundsOfOneLedger && killed < kills; ++i, ++killed) {
      SCOPED_TRACE(killed);
      ExpectKilled(chain.RunToDeath(RandomDeath(random)));
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(chain.RunToEnd(20).status, 0) << "and it can be closed";
    EXPECT_GT(chain.witness().orders(), 0u);
    repeats += chain.witness().repeats_of_former_rounds();
  }
  EXPECT_GT(repeats, 0u) << "no id was answered both before and after a crash";
}

}  // namespace
}  // namespace stockade::testing
