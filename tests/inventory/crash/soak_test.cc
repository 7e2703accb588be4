// 100 SKUs, 16 threads, killed every few seconds, for as long as STOCKADE_SOAK_SECONDS says (30).

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>

#include "gtest/gtest.h"
#include "inventory/crash/chain.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

absl::Duration SoakTime() {
  const char* const seconds = std::getenv("STOCKADE_SOAK_SECONDS");
  return absl::Seconds(seconds == nullptr ? 30 : std::max(1, std::atoi(seconds)));
}

TEST(SoakTest, MixedTrade_KilledEveryFewSeconds_AuditHoldsAfterEachRestart) {
  // A round remembers ended orders for this long only, or for good.
  constexpr absl::Duration kRetention = absl::Seconds(2);
  // Answers of a round, so that ten minutes fit into memory and on any disk.
  const uint64_t most_lines = kSanitized ? 8'000 : 20'000;
  const absl::Time end = absl::Now() + SoakTime();
  std::minstd_rand random(20261122);
  Chain chain({.seed = 1, .skus = 100, .stock = 50}, 16);
  absl::Duration longest = absl::ZeroDuration();
  const auto was_pruned = [&] { return chain.Count("SELECT journal_start FROM ledger") > 0; };
  // A busy machine needs longer until an order is older than its retention in a round that lives.
  while (absl::Now() < end || (!was_pruned() && absl::Now() < end + absl::Minutes(5))) {
    SCOPED_TRACE(chain.rounds());
    const Ended ended =
        chain.RunToDeath({.lines = most_lines, .after_opening = absl::Milliseconds(300 + random() % 3'000)},
                         chain.rounds() % 2 == 0 ? absl::InfiniteDuration() : kRetention);
    ExpectKilled(ended);
    EXPECT_TRUE(ended.opened);
    ASSERT_FALSE(HasFailure());
    longest = std::max(longest, ended.opening);
  }
  ASSERT_EQ(chain.RunToEnd(20).status, 0);
  EXPECT_TRUE(was_pruned());
  std::cout << chain.rounds() - 1 << " times killed, " << chain.witness().orders() << " orders, "
            << chain.witness().repeats_of_former_rounds() << " of them answered again after a restart, which took "
            << longest << " at most; " << std::filesystem::file_size(chain.path()) / 1024 << " KiB\n";
}

}  // namespace
}  // namespace stockade::testing
