#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "cache/schedules/explorer.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

// Odd seeds have faults.
void Explore(uint64_t faults) {
  Explorer explorer;
  if (const char* const named = std::getenv("STOCKADE_SCHEDULE_SEED"); named != nullptr) {
    const uint64_t seed = std::strtoull(named, nullptr, 10);
    if (seed % 2 != faults) GTEST_SKIP() << "a seed of the other case";
    // Once on threads that have not used a cache yet, and once on threads that have: their points differ.
    EXPECT_EQ(explorer.ExploreFleet(seed), "");
    for (uint64_t other = 0; other < 20; ++other) EXPECT_EQ(explorer.ExploreFleet(other), "");
    EXPECT_EQ(explorer.ExploreFleet(seed), "");
    std::cout << explorer.Trace();
    return;
  }
  const auto schedules = static_cast<uint64_t>(Scaled(1'000, 500'000));
  for (uint64_t i = 0; i < schedules; ++i) ASSERT_EQ(explorer.ExploreFleet(2 * i + faults), "");
}

TEST(FleetExplorer, RandomSchedules_NoFaults_EveryAnswerKeepsTheRules) { Explore(0); }
TEST(FleetExplorer, RandomSchedules_Faults_EveryAnswerKeepsTheRules) { Explore(1); }

TEST(FleetExplorer, Seed_RunAgain_GivesTheSameTrace) {
  Explorer explorer;
  Explorer other;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    ASSERT_EQ(explorer.ExploreFleet(seed), "");
    ASSERT_EQ(other.ExploreFleet(seed), "");
    ASSERT_EQ(explorer.Trace(), other.Trace()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stockade::testing
