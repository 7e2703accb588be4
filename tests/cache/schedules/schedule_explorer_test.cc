#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "cache/schedules/choice.h"
#include "cache/schedules/explorer.h"
#include "cache/schedules/plan.h"
#include "cache/schedules/schedule_clock.h"
#include "cache/schedules/scheduler.h"
#include "stockade/cache/loading_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

// The seeds of a family, or the one that STOCKADE_SCHEDULE_SEED names.
void Explore(Family family) {
  Explorer explorer;
  if (const char* const named = std::getenv("STOCKADE_SCHEDULE_SEED"); named != nullptr) {
    const uint64_t seed = std::strtoull(named, nullptr, 10);
    if (FamilyOf(seed) != family) GTEST_SKIP() << "another family's seed";
    EXPECT_EQ(explorer.Explore(seed), "");
    std::cout << explorer.Trace();
    return;
  }
  const auto schedules = static_cast<uint64_t>(Scaled(1'000, 100'000)) / kFamilies + 1;
  for (uint64_t i = 0; i < schedules; ++i) {
    ASSERT_EQ(explorer.Explore(i * kFamilies + static_cast<uint64_t>(family)), "");
  }
}

TEST(ScheduleExplorer, RandomSchedules_NothingExpires_EveryAnswerHasAnOrder) { Explore(Family::kPlain); }
TEST(ScheduleExplorer, RandomSchedules_ValuesExpire_EveryAnswerHasAnOrder) { Explore(Family::kExpiry); }
TEST(ScheduleExplorer, RandomSchedules_StaleIfError_EveryAnswerHasAnOrder) { Explore(Family::kStale); }
TEST(ScheduleExplorer, RandomSchedules_StaleWhileRevalidate_EveryAnswerHasAnOrder) { Explore(Family::kRevalidate); }
TEST(ScheduleExplorer, RandomSchedules_RefreshAhead_EveryAnswerHasAnOrder) { Explore(Family::kRefresh); }
TEST(ScheduleExplorer, RandomSchedules_LoadExecutor_EveryAnswerHasAnOrder) { Explore(Family::kExecutor); }
TEST(ScheduleExplorer, RandomSchedules_BatchLoader_EveryAnswerHasAnOrder) { Explore(Family::kBatch); }
TEST(ScheduleExplorer, RandomSchedules_SmallBound_EveryAnswerHasAnOrder) { Explore(Family::kBound); }
TEST(ScheduleExplorer, RandomSchedules_HardTimeout_EveryAnswerHasAnOrder) { Explore(Family::kTimeout); }

// A caller's loader gets its deadline and its thread's state, so no other call may run it.
TEST(ScheduleExplorer, CallsOfOneKey_TheFirstRunsItsLoaderOnItsThread) {
  Scheduler scheduler;
  ScheduleClock clock(&scheduler);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    scheduler.Reset();
    LoadingCache<int, int> cache({.name = "pages", .max_weight = 10, .clock = &clock});
    std::vector<int> loads;  // The calls whose loader ran.
    const auto call = [&](int own) {
      EXPECT_TRUE(cache
                      .GetOrLoad(1,
                                 [&, own](const int&) {
                                   EXPECT_EQ(scheduler.thread(), own) << "seed " << seed;
                                   loads.push_back(own);
                                   return own;
                                 })
                      .ok());
    };
    Choice choice(seed);
    scheduler.Run(
        {[&] { call(0); }, [&] { call(1); }, [&] { call(2); }}, choice, [] {},
        [&](const char* why) {
          std::cerr << "seed " << seed << ": " << why << "\n";
          std::abort();
        });
    ASSERT_EQ(loads.size(), 1u) << "seed " << seed;
  }
}

TEST(ScheduleExplorer, Seed_RunAgain_GivesTheSameTrace) {
  Explorer explorer;
  Explorer other;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    ASSERT_EQ(explorer.Explore(seed), "");
    ASSERT_EQ(other.Explore(seed), "");
    ASSERT_EQ(explorer.Trace(), other.Trace()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stockade::testing
