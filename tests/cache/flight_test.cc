#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

TEST(FlightTest, Get_ThousandCallersOnAColdKey_OneLoadAndEqualAnswers) {
  const int callers = static_cast<int>(Scaled(1'000, 1'000));
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.metrics = &registry}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return key * 100 + ++loads;
  });
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < callers; ++i) {
      threads.emplace_back([&] {
        const IntAnswer answer = cache.Get(7);
        if (answer.ok() && **answer == 701) ++right;
      });
    }
    AwaitWaiters(registry, callers - 1);
    door.Open();
  }
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(right, callers);
  EXPECT_EQ(Requests(registry, "miss"), 1);
  EXPECT_EQ(Requests(registry, "coalesced"), callers - 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
}

// The weigher runs after the loader has returned and before its result is stored.
TEST(FlightTest, Get_BetweenTheLoadsReturnAndItsPublication_JoinsTheFlight) {
  MetricsRegistry registry;
  Door weighing;
  std::atomic<int> loads{0};
  IntCache cache(
      {.metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> { return ++loads; },
      [&](const int&, const int&) -> int64_t {
        weighing.Pass();
        return 1;
      });
  std::jthread leader([&] { EXPECT_EQ(**cache.Get(1), 1); });
  weighing.AwaitArrivals(1);
  std::jthread late([&] { EXPECT_EQ(**cache.Get(1), 1); });
  AwaitWaiters(registry, 1);
  weighing.Open();
  late.join();
  leader.join();
  EXPECT_EQ(loads, 1);
}

TEST(FlightTest, Get_OfDifferentKeys_LoadsThemAtTheSameTime) {
  Door door;
  IntCache cache({.metrics = nullptr}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return key;
  });
  std::vector<std::jthread> threads;
  for (int key = 0; key < 8; ++key) threads.emplace_back([&cache, key] { EXPECT_EQ(**cache.Get(key), key); });
  door.AwaitArrivals(8);
  door.Open();
}

class FailingFlightTest : public ::testing::TestWithParam<bool> {};

TEST_P(FailingFlightTest, Get_LoaderFails_EveryWaiterGetsItAndTheNextCallLoads) {
  constexpr int kCallers = 20;
  const bool throws = GetParam();
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.name = "broken", .metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    if (++loads > 1) return 5;
    door.Pass();
    if (throws) throw std::runtime_error("no such table");
    return absl::UnavailableError("no such table");
  });
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kCallers; ++i) {
      threads.emplace_back([&] {
        const absl::Status error = cache.Get(1).status();
        const auto wanted = throws ? absl::StatusCode::kInternal : absl::StatusCode::kUnavailable;
        if (error.code() == wanted && error.ToString().find("no such table") != std::string::npos) ++right;
      });
    }
    AwaitWaiters(registry, kCallers - 1);
    door.Open();
  }
  EXPECT_EQ(right, kCallers);
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(**cache.Get(1), 5);
  EXPECT_EQ(loads, 2);
}

INSTANTIATE_TEST_SUITE_P(ReturnsOrThrows, FailingFlightTest, ::testing::Bool());

TEST(FlightTest, Get_WaitersDeadlinePasses_LeavesWithoutALoadAndTheFlightIsStored) {
  MetricsRegistry registry;
  ManualClock clock;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.clock = &clock, .metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    ++loads;
    door.Pass();
    return 9;
  });
  std::jthread leader([&] { EXPECT_EQ(**cache.Get(1), 9); });
  door.AwaitArrivals(1);
  std::jthread waiter([&] {
    EXPECT_EQ(cache.Get(1, {.timeout = absl::Seconds(1)}).status().code(), absl::StatusCode::kDeadlineExceeded);
  });
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(1));
  waiter.join();
  EXPECT_EQ(loads, 1);
  door.Open();
  leader.join();
  EXPECT_EQ(**cache.GetIfPresent(1), 9);
  EXPECT_EQ(loads, 1);
}

TEST(FlightTest, Get_NoTimeAtAll_AnswersFromTheCacheAndLoadsNothing) {
  std::atomic<int> loads{0};
  IntCache cache({.metrics = nullptr}, [&](const int&, LoadContext&) -> absl::StatusOr<int> { return ++loads; });
  const CacheGetOptions at_once{.timeout = absl::ZeroDuration()};
  EXPECT_EQ(cache.Get(1, at_once).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(loads, 0);
  cache.Put(1, 3);
  EXPECT_EQ(**cache.Get(1, at_once), 3);
}

TEST(FlightTest, Get_LeaderGivesUpWithALoadExecutor_LeavesOnTimeAndTheFlightGoesOn) {
  MetricsRegistry registry;
  ManualClock clock;
  Door door;
  std::atomic<int> loads{0};
  ThreadPool pool(1);
  IntCache cache({.clock = &clock, .load_executor = &pool, .metrics = &registry},
                 [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
                   ++loads;
                   EXPECT_EQ(load.deadline(), Instant::InfiniteFuture());
                   door.Pass();
                   return 4;
                 });
  std::jthread leader([&] {
    EXPECT_EQ(cache.Get(1, {.timeout = absl::Seconds(1)}).status().code(), absl::StatusCode::kDeadlineExceeded);
  });
  door.AwaitArrivals(1);
  clock.AwaitWaiters(1);
  std::jthread patient([&] { EXPECT_EQ(**cache.Get(1), 4); });
  AwaitWaiters(registry, 2);
  clock.Advance(absl::Seconds(1));
  leader.join();
  door.Open();
  patient.join();
  EXPECT_EQ(loads, 1);
}

TEST(FlightTest, Get_LoadOnTheCallersThread_ItsDeadlineReachesTheLoader) {
  ManualClock clock;
  Instant deadline;
  absl::Duration left;
  IntCache cache({.load_hard_timeout = absl::Seconds(5), .clock = &clock, .metrics = nullptr},
                 [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
                   deadline = load.deadline();
                   clock.Advance(absl::Seconds(1));
                   left = load.time_left();
                   return 1;
                 });
  Instant begun = clock.Now();
  ASSERT_TRUE(cache.Get(1, {.timeout = absl::Seconds(3)}).ok());
  EXPECT_EQ(deadline, begun + absl::Seconds(3));
  EXPECT_EQ(left, absl::Seconds(2));
  begun = clock.Now();
  ASSERT_TRUE(cache.Get(2).ok());
  EXPECT_EQ(deadline, begun + absl::Seconds(5));
  EXPECT_EQ(left, absl::Seconds(4));
}

}  // namespace
}  // namespace stockade::testing
