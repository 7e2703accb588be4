#include <gtest/gtest.h>

#include <functional>
#include <string_view>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// Values live for 10 s unless the test says otherwise. Load n returns n, or what `outcome` says; background loads wait
// for executor.RunAll().
struct StaleCache {
  explicit StaleCache(LoadingCacheOptions options)
      : cache(With(std::move(options), this), [this](const int&, LoadContext&) -> absl::StatusOr<int> {
          ++loads;
          if (!outcome.ok()) return outcome;
          return loads;
        }) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, StaleCache* self) {
    if (options.ttl == absl::InfiniteDuration()) options.ttl = absl::Seconds(10);
    options.clock = &self->clock;
    options.metrics = &self->registry;
    options.refresh_executor = &self->executor;
    return options;
  }

  double Refreshes(std::string_view trigger) const {
    return Metric(registry, "stockade_cache_refreshes_total", trigger);
  }

  ManualClock clock;
  MetricsRegistry registry;
  ManualExecutor executor;
  int loads = 0;
  absl::Status outcome;
  IntCache cache;
};

TEST(StaleWhileRevalidateTest, Get_WithinTheWindow_TheOldValueAtOnceAndOneRefresh) {
  StaleCache stale({.stale_while_revalidate = absl::Seconds(20)});
  stale.cache.Put(1, 50);
  stale.clock.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_EQ(**stale.cache.Get(1), 50);
  EXPECT_EQ(Requests(stale.registry, "stale"), 0);
  EXPECT_EQ(stale.executor.scheduled(), 0U);
  stale.clock.Advance(absl::Nanoseconds(1));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(**stale.cache.Get(1), 50);
  EXPECT_EQ(**stale.cache.Get(1, {.timeout = absl::ZeroDuration()}), 50);
  EXPECT_EQ(stale.executor.scheduled(), 1U);
  EXPECT_EQ(stale.Refreshes("stale"), 1);
  EXPECT_EQ(Requests(stale.registry, "stale"), 11);
  EXPECT_EQ(Requests(stale.registry, "miss"), 0);
  EXPECT_EQ(stale.loads, 0);
  stale.executor.RunAll();
  EXPECT_EQ(**stale.cache.Get(1), 1);
  EXPECT_EQ(Requests(stale.registry, "hit"), 2);
  EXPECT_EQ(stale.Refreshes("ahead"), 0);
}

TEST(StaleWhileRevalidateTest, Get_TheLoaderHangs_NobodyWaitsForIt) {
  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache(
      {.ttl = absl::Seconds(10), .stale_while_revalidate = absl::Seconds(20), .clock = &clock, .metrics = &registry},
      [&](const int&, LoadContext&) -> absl::StatusOr<int> {
        ++loads;
        door.Pass();
        return 2;
      });
  cache.Put(1, 50);
  clock.Advance(absl::Seconds(10));
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] {
        for (int n = 0; n < 50; ++n) EXPECT_EQ(**cache.Get(1), 50);
      });
    }
  }
  door.AwaitArrivals(1);
  EXPECT_EQ(Requests(registry, "stale"), 400);
  clock.Advance(absl::Seconds(20));  // The window is over, and the refresh still runs.
  std::jthread waiter([&] { EXPECT_EQ(**cache.Get(1), 2); });
  AwaitWaiters(registry, 1);
  door.Open();
  waiter.join();
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(Requests(registry, "coalesced"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "stale"), 1);
}

TEST(StaleWhileRevalidateTest, Get_AfterTheWindow_LoadsAndWaits) {
  StaleCache stale({.stale_while_revalidate = absl::Seconds(20)});
  stale.cache.Put(1, 50);
  stale.cache.Put(2, 60);
  stale.clock.Advance(absl::Seconds(30) - absl::Nanoseconds(1));
  EXPECT_EQ(**stale.cache.Get(1), 50);
  stale.clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(stale.cache.Get(2, {.timeout = absl::ZeroDuration()}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(**stale.cache.Get(2), 1);
  EXPECT_EQ(Requests(stale.registry, "miss"), 2);
}

TEST(StaleWhileRevalidateTest, Get_WithoutAWindow_LoadsAtExpiry) {
  StaleCache stale({});
  stale.cache.Put(1, 50);
  stale.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**stale.cache.Get(1), 1);
  EXPECT_EQ(Requests(stale.registry, "stale"), 0);
}

TEST(StaleWhileRevalidateTest, GetIfPresent_WithinTheWindow_GivesNothingAndTheValueStaysForGet) {
  StaleCache stale({.stale_while_revalidate = absl::Seconds(20)});
  stale.cache.Put(1, 50);
  stale.clock.Advance(absl::Seconds(10));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(stale.cache.GetIfPresent(1).has_value());
  EXPECT_EQ(Requests(stale.registry, "stale"), 0);
  EXPECT_EQ(stale.loads, 0);
  EXPECT_EQ(**stale.cache.Get(1), 50);
}

TEST(StaleWhileRevalidateTest, GetAll_WithinTheWindow_ServesEachKeyAndRefreshesItOnce) {
  StaleCache stale({.stale_while_revalidate = absl::Seconds(20)});
  for (int key = 0; key < 5; ++key) stale.cache.Put(key, 50 + key);
  stale.clock.Advance(absl::Seconds(10));
  for (int round = 0; round < 2; ++round) {
    const std::vector<IntAnswer> answers = stale.cache.GetAll({4, 3, 2, 1, 0});
    for (int key = 0; key < 5; ++key) EXPECT_EQ(**answers[static_cast<size_t>(4 - key)], 50 + key);
  }
  EXPECT_EQ(stale.Refreshes("stale"), 5);
  EXPECT_EQ(Requests(stale.registry, "stale"), 10);
  stale.executor.RunAll();
  EXPECT_EQ(stale.loads, 5);
}

TEST(StaleWhileRevalidateTest, GetOrLoad_WithinTheWindow_ItsLoaderRefreshes) {
  StaleCache stale({.stale_while_revalidate = absl::Seconds(20)});
  stale.cache.Put(1, 50);
  stale.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**stale.cache.GetOrLoad(1, [](const int&, LoadContext&) -> absl::StatusOr<int> { return 99; }), 50);
  stale.executor.RunAll();
  EXPECT_EQ(**stale.cache.Get(1), 99);
  EXPECT_EQ(stale.loads, 0);
}

TEST(StaleWhileRevalidateTest, Get_RefreshesFail_ServedToTheEndOfTheWindowWithOneTryPerBackoff) {
  StaleCache stale({.stale_while_revalidate = absl::Seconds(50), .retry_backoff = absl::Seconds(10)});
  stale.cache.Put(1, 50);
  stale.outcome = absl::UnavailableError("down");
  stale.clock.Advance(absl::Seconds(10));
  for (int second = 0; second < 50; ++second) {
    EXPECT_EQ(**stale.cache.Get(1), 50);
    stale.executor.RunAll();
    EXPECT_EQ(stale.loads, 1 + second / 10);
    stale.clock.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(Requests(stale.registry, "stale"), 50);
  EXPECT_EQ(stale.Refreshes("stale"), 5);
  EXPECT_EQ(stale.cache.Get(1).status(), stale.outcome);
}

TEST(StaleWhileRevalidateTest, Get_RefreshFindsTheKeyGone_TheValueGoes) {
  StaleCache stale({.negative_ttl = absl::Hours(1), .stale_while_revalidate = absl::Seconds(50)});
  stale.cache.Put(1, 50);
  stale.outcome = absl::NotFoundError("no row");
  stale.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**stale.cache.Get(1), 50);
  stale.executor.RunAll();
  EXPECT_EQ(stale.cache.Get(1).status(), stale.outcome);
  EXPECT_EQ(stale.loads, 1);
}

TEST(StaleWhileRevalidateTest, Get_AnAbsence_IsNeverStale) {
  StaleCache stale({.negative_ttl = absl::Seconds(5), .stale_while_revalidate = absl::Seconds(50)});
  stale.outcome = absl::NotFoundError("no row");
  EXPECT_EQ(stale.cache.Get(1).status(), stale.outcome);
  stale.clock.Advance(absl::Seconds(5));
  stale.outcome = absl::OkStatus();
  EXPECT_EQ(**stale.cache.Get(1), 2);
}

// Before, and while, the refresh that it had set off runs.
TEST(StaleWhileRevalidateTest, Get_AfterTheValueWasInvalidated_IsNotServedIt) {
  const auto by_key = [](IntCache& cache) { cache.Invalidate(1); };
  const auto by_tag = [](IntCache& cache) { cache.InvalidateTag("shoes"); };
  const auto all = [](IntCache& cache) { cache.InvalidateAll(); };
  const auto by_put = [](IntCache& cache) { cache.Put(1, 70, absl::ZeroDuration()); };
  for (const std::function<void(IntCache&)>& invalidate :
       {std::function<void(IntCache&)>(by_key), std::function<void(IntCache&)>(by_tag),
        std::function<void(IntCache&)>(all), std::function<void(IntCache&)>(by_put)}) {
    for (const bool refreshing : {false, true}) {
      StaleCache stale({.stale_while_revalidate = absl::InfiniteDuration(), .stale_if_error = absl::Hours(1)});
      stale.cache.Put(1, 50, {.tags = {"shoes"}});
      stale.clock.Advance(absl::Seconds(10));
      if (refreshing) {
        EXPECT_EQ(**stale.cache.Get(1), 50);
      }
      invalidate(stale.cache);
      stale.outcome = absl::UnavailableError("down");
      EXPECT_EQ(stale.cache.Get(1).status(), stale.outcome);
      stale.executor.RunAll();
      EXPECT_EQ(stale.cache.Get(1).status(), stale.outcome);
      stale.outcome = absl::OkStatus();
      EXPECT_EQ(**stale.cache.Get(1), stale.loads);
    }
  }
}

// Revalidated for 10 s, standing in for errors for 30 s: nobody waits in the first 10 s, one a back-off later.
TEST(StaleWhileRevalidateTest, Get_StaleIfErrorIsLonger_TakesOverWhenTheWindowEnds) {
  StaleCache stale({.stale_while_revalidate = absl::Seconds(10),
                    .stale_if_error = absl::Seconds(30),
                    .retry_backoff = absl::Seconds(5)});
  stale.cache.Put(1, 50);
  stale.outcome = absl::UnavailableError("down");
  stale.clock.Advance(absl::Seconds(10));
  for (int second = 0; second < 30; ++second) {
    const int before = stale.loads;
    EXPECT_EQ(**stale.cache.Get(1), 50);
    if (second < 10) {
      EXPECT_EQ(stale.loads, before);
    }
    stale.executor.RunAll();
    EXPECT_EQ(stale.loads, 1 + second / 5);
    stale.clock.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(Requests(stale.registry, "stale"), 30);
  EXPECT_EQ(stale.cache.Get(1).status(), stale.outcome);
}

TEST(StaleWhileRevalidateTest, Get_StaleIfErrorIsShorter_TheWindowHoldsInAnOutageToo) {
  StaleCache stale({.stale_while_revalidate = absl::Seconds(30),
                    .stale_if_error = absl::Seconds(10),
                    .retry_backoff = absl::Seconds(5)});
  stale.cache.Put(1, 50);
  stale.outcome = absl::UnavailableError("down");
  stale.clock.Advance(absl::Seconds(10));
  for (int second = 0; second < 30; ++second) {
    EXPECT_EQ(**stale.cache.Get(1), 50);
    stale.executor.RunAll();
    stale.clock.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(stale.loads, 6);
  EXPECT_EQ(stale.cache.Get(1).status(), stale.outcome);
}

TEST(StaleWhileRevalidateTest, Get_InfiniteWindow_ServesHoweverOldAndRefreshes) {
  StaleCache stale({.stale_while_revalidate = absl::InfiniteDuration()});
  stale.cache.Put(1, 50);
  stale.clock.Advance(absl::Hours(24 * 365 * 100));
  EXPECT_EQ(**stale.cache.Get(1), 50);
  stale.executor.RunAll();
  EXPECT_EQ(**stale.cache.Get(1), 1);
  EXPECT_EQ(Requests(stale.registry, "stale"), 1);
}

TEST(StaleWhileRevalidateTest, ZeroTtl_IsNotStored_SoThereIsNothingStale) {
  StaleCache stale({.ttl = absl::ZeroDuration(), .stale_while_revalidate = absl::InfiniteDuration()});
  EXPECT_EQ(**stale.cache.Get(1), 1);
  EXPECT_EQ(**stale.cache.Get(1), 2);
}

}  // namespace
}  // namespace stockade::testing
