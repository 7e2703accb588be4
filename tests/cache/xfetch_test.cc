#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

constexpr absl::Duration kTtl = absl::Seconds(60);

// Loads take `load_time` on the clock, which stands still otherwise. Refreshes wait for executor.RunAll().
struct XFetchCache {
  explicit XFetchCache(LoadingCacheOptions options)
      : cache(With(std::move(options), this), [this](const int&, LoadContext&) -> absl::StatusOr<int> {
          ++loads;
          clock.Advance(load_time);
          if (!outcome.ok()) return outcome;
          return loads;
        }) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, XFetchCache* self) {
    options.max_weight = 1'000'000;
    options.ttl = kTtl;
    options.clock = &self->clock;
    options.refresh_executor = &self->executor;
    options.metrics = &self->registry;
    return options;
  }

  // Whether a hit on a new entry, `gap` before its expiry, sets off a refresh.
  bool HitAt(absl::Duration gap) {
    const int key = next_key++;
    const int value = **cache.Get(key);
    clock.Advance(kTtl - gap);
    const size_t before = executor.scheduled();
    EXPECT_EQ(**cache.Get(key), value);
    return executor.scheduled() != before;
  }
  // Loads of keys before have made the clock go on: one key at a time.
  int HitsAt(absl::Duration gap, int count) {
    int refreshes = 0;
    for (int i = 0; i < count; ++i) refreshes += HitAt(gap);
    return refreshes;
  }

  ManualClock clock;
  MetricsRegistry registry;
  ManualExecutor executor;
  absl::Duration load_time = absl::Milliseconds(100);
  absl::Status outcome;
  int loads = 0;
  int next_key = 0;
  IntCache cache;
};

struct Setting {
  double beta;
  absl::Duration load_time;
};

class XFetchChanceTest : public ::testing::TestWithParam<Setting> {};

INSTANTIATE_TEST_SUITE_P(Settings, XFetchChanceTest,
                         ::testing::Values(Setting{1, absl::Milliseconds(100)}, Setting{2, absl::Milliseconds(100)},
                                           Setting{0.5, absl::Milliseconds(100)}, Setting{1, absl::Milliseconds(700)}));

// The hit at the expiry less `gap` refreshes if gap <= -beta * delta * ln(u), u even on (0, 1].
TEST_P(XFetchChanceTest, Get_NearExpiry_RefreshesAsOftenAsTheFormulaSays) {
  constexpr int kHits = 4'000;
  const auto [beta, load_time] = GetParam();
  XFetchCache xfetch({.xfetch_beta = beta, .seed = 20260101});
  xfetch.load_time = load_time;
  int last = kHits;
  for (const double share : {0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0}) {
    const double chance = std::exp(-share);
    const int refreshes = xfetch.HitsAt(load_time * beta * share, kHits);
    EXPECT_NEAR(refreshes, kHits * chance, 4.5 * std::sqrt(kHits * chance * (1 - chance))) << share;
    EXPECT_LT(refreshes, last);
    last = refreshes;
  }
}

TEST(XFetchTest, Get_FarFromExpiry_NeverRefreshes) {
  XFetchCache xfetch({.xfetch_beta = 1, .seed = 1});
  EXPECT_EQ(**xfetch.cache.Get(1), 1);
  for (int i = 0; i < 100'000; ++i) (void)xfetch.cache.Get(1);
  xfetch.clock.Advance(kTtl - 50 * xfetch.load_time);
  for (int i = 0; i < 100'000; ++i) (void)xfetch.cache.Get(1);
  EXPECT_EQ(xfetch.executor.scheduled(), 0U);
  EXPECT_EQ(Requests(xfetch.registry, "hit"), 200'000);
}

TEST(XFetchTest, Get_BetaZero_NeverRefreshes) {
  XFetchCache xfetch({.xfetch_beta = 0, .seed = 1});
  EXPECT_EQ(xfetch.HitsAt(absl::Nanoseconds(1), 1'000), 0);
}

TEST(XFetchTest, Get_AValueThatWasPut_NeverRefreshes) {
  XFetchCache xfetch({.xfetch_beta = 1'000, .seed = 1});
  xfetch.cache.Put(1, 50);
  xfetch.clock.Advance(kTtl - absl::Nanoseconds(1));
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(**xfetch.cache.Get(1), 50);
  EXPECT_EQ(xfetch.executor.scheduled(), 0U);
}

TEST(XFetchTest, Get_AValueThatNeverExpires_NeverRefreshes) {
  ManualClock clock;
  MetricsRegistry registry;
  IntCache cache({.ttl = absl::Hours(1), .xfetch_beta = 1'000, .clock = &clock, .seed = 1, .metrics = &registry},
                 [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
                   clock.Advance(absl::Hours(1));
                   load.set_ttl(absl::InfiniteDuration());
                   return 1;
                 });
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(cache.Get(1).ok());
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "xfetch"), 0);
}

TEST(XFetchTest, Get_ManyHitsWhileItRefreshes_OneLoadAndNobodyWaits) {
  XFetchCache xfetch({.xfetch_beta = 1, .seed = 1});
  EXPECT_EQ(**xfetch.cache.Get(1), 1);
  xfetch.clock.Advance(kTtl - absl::Milliseconds(1));
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(**xfetch.cache.Get(1), 1);
  EXPECT_EQ(xfetch.executor.scheduled(), 1U);
  EXPECT_EQ(Metric(xfetch.registry, "stockade_cache_refreshes_total", "xfetch"), 1);
  EXPECT_EQ(Metric(xfetch.registry, "stockade_cache_refreshes_total", "ahead"), 0);
  EXPECT_EQ(Metric(xfetch.registry, "stockade_cache_refreshes_total", "stale"), 0);
  EXPECT_EQ(Requests(xfetch.registry, "hit"), 1'000);
  xfetch.executor.RunAll();
  EXPECT_EQ(**xfetch.cache.Get(1), 2);
}

TEST(XFetchTest, Get_TheRefreshHangsOnThePool_HitsGoOn) {
  ManualClock clock;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.ttl = kTtl, .xfetch_beta = 1, .clock = &clock, .seed = 1, .metrics = nullptr},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   if (++loads == 2) door.Pass();
                   clock.Advance(absl::Milliseconds(100));
                   return loads.load();
                 });
  EXPECT_EQ(**cache.Get(1), 1);
  clock.Advance(kTtl - absl::Nanoseconds(1));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(**cache.Get(1), 1);
  door.AwaitArrivals(1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(**cache.Get(1), 1);
  EXPECT_EQ(loads, 2);
  door.Open();
}

TEST(XFetchTest, Get_TheRefreshFails_WaitsForTheBackoff) {
  XFetchCache xfetch({.xfetch_beta = 1'000, .retry_backoff = absl::Seconds(5), .seed = 1});
  EXPECT_EQ(**xfetch.cache.Get(1), 1);
  xfetch.outcome = absl::UnavailableError("down");
  xfetch.load_time = absl::ZeroDuration();
  xfetch.clock.Advance(kTtl - absl::Seconds(10));  // At a scale of 100 s a hit refreshes with a chance above 0.9.
  for (int half_second = 0; half_second < 20; ++half_second) {
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(**xfetch.cache.Get(1), 1);
      xfetch.executor.RunAll();
    }
    EXPECT_EQ(xfetch.loads, half_second < 10 ? 2 : 3);
    xfetch.clock.Advance(absl::Milliseconds(500));
  }
}

TEST(XFetchTest, Get_TogetherWithRefreshAhead_BothSetItOff) {
  XFetchCache xfetch({.refresh_ahead = 0.9, .xfetch_beta = 1, .seed = 1});
  xfetch.load_time = absl::Seconds(6);
  // 12 s before the expiry, 6 s before the share: only XFetch, with a chance of exp(-2).
  const int refreshes = xfetch.HitsAt(absl::Seconds(12), 400);
  EXPECT_NEAR(refreshes, 400 * std::exp(-2), 35);
  EXPECT_EQ(Metric(xfetch.registry, "stockade_cache_refreshes_total", "xfetch"), refreshes);
  EXPECT_EQ(Metric(xfetch.registry, "stockade_cache_refreshes_total", "ahead"), 0);
  EXPECT_EQ(xfetch.HitsAt(absl::Seconds(6), 100), 100);
  EXPECT_EQ(Metric(xfetch.registry, "stockade_cache_refreshes_total", "ahead"), 100);
}

TEST(XFetchTest, Seed_TheSameOne_DrawsTheSame) {
  const auto draw = [](uint64_t seed) {
    XFetchCache xfetch({.xfetch_beta = 1, .seed = seed});
    std::vector<bool> drawn;
    for (int i = 0; i < 200; ++i) drawn.push_back(xfetch.HitAt(absl::Milliseconds(70)));
    return drawn;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

}  // namespace
}  // namespace stockade::testing
