#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cache/subject.h"

namespace stockade::testing {
namespace {

constexpr absl::Duration kTtl = absl::Seconds(60);

// Loads take `load_time` on the clock, which stands still otherwise.
struct XFetchSubject : Subject {
  explicit XFetchSubject(LoadingCacheOptions options) : Subject({}, With(std::move(options))) {
    load = [this](const Load& one) -> absl::StatusOr<int> {
      Advance(load_time);
      if (!outcome.ok()) return outcome;
      return one.number;
    };
  }
  static LoadingCacheOptions With(LoadingCacheOptions options) {
    options.max_weight = 1'000'000;
    options.ttl = kTtl;
    return options;
  }

  // The number of refreshes that a hit starts on each of `count` new entries, `gap` before the expiry of the entry. One
  // key at a time, because loads advance the clock.
  int HitsAt(absl::Duration gap, int count) {
    const size_t before = background.scheduled();
    for (int i = 0; i < count; ++i) {
      const Answer loaded = Ask(++last_key);
      Advance(kTtl - gap);
      EXPECT_EQ(Ask(last_key), loaded.text);
    }
    return static_cast<int>(background.scheduled() - before);
  }

  absl::Duration load_time = absl::Milliseconds(100);
  int last_key = 0;
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
  XFetchSubject xfetch({.xfetch_beta = beta, .seed = 20260101});
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
  XFetchSubject xfetch({.xfetch_beta = 1, .seed = 1});
  EXPECT_EQ(xfetch.Ask(), 1);
  for (int i = 0; i < 100'000; ++i) (void)xfetch.Ask();
  xfetch.Advance(kTtl - 50 * xfetch.load_time);
  for (int i = 0; i < 100'000; ++i) (void)xfetch.Ask();
  EXPECT_EQ(xfetch.background.scheduled(), 0U);
  EXPECT_EQ(xfetch.Requests("hit"), 200'000);
}

TEST(XFetchTest, Get_BetaZero_NeverRefreshes) {
  XFetchSubject xfetch({.xfetch_beta = 0, .seed = 1});
  EXPECT_EQ(xfetch.HitsAt(absl::Nanoseconds(1), 1'000), 0);
}

TEST(XFetchTest, Get_AValueThatWasPut_NeverRefreshes) {
  XFetchSubject xfetch({.xfetch_beta = 1'000, .seed = 1});
  xfetch.Put(1, 50);
  xfetch.Advance(kTtl - absl::Nanoseconds(1));
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(xfetch.Ask(), 50);
  EXPECT_EQ(xfetch.background.scheduled(), 0U);
}

TEST(XFetchTest, Get_AValueThatNeverExpires_NeverRefreshes) {
  XFetchSubject xfetch({.xfetch_beta = 1'000, .seed = 1});
  xfetch.load_time = absl::Hours(1);
  xfetch.entry.ttl = absl::InfiniteDuration();
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(xfetch.Ask(), 1);
  EXPECT_EQ(xfetch.Refreshes("xfetch"), 0);
}

// The refresh is held: hits do not wait for it.
TEST(XFetchTest, Get_ManyHitsWhileItRefreshes_OneLoadAndNoCallWaits) {
  XFetchSubject xfetch({.xfetch_beta = 1, .seed = 1});
  EXPECT_EQ(xfetch.Ask(), 1);
  xfetch.Advance(kTtl - absl::Milliseconds(1));
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(xfetch.Ask(), 1);
  EXPECT_EQ(xfetch.background.scheduled(), 1U);
  EXPECT_EQ(xfetch.Refreshes("xfetch"), 1);
  EXPECT_EQ(xfetch.Refreshes("ahead"), 0);
  EXPECT_EQ(xfetch.Refreshes("stale"), 0);
  EXPECT_EQ(xfetch.Requests("hit"), 1'000);
  xfetch.Hold(2);
  std::future<void> refresh = xfetch.RunBackground();
  xfetch.AwaitLoad(2);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(xfetch.Ask(), 1);
  EXPECT_EQ(xfetch.Loads(), 2);
  xfetch.Release(2);
  refresh.get();
  EXPECT_EQ(xfetch.Ask(), 2);
}

TEST(XFetchTest, Get_TheRefreshFails_WaitsForTheBackoff) {
  XFetchSubject xfetch({.xfetch_beta = 1'000, .retry_backoff = absl::Seconds(5), .seed = 1});
  EXPECT_EQ(xfetch.Ask(), 1);
  xfetch.outcome = absl::UnavailableError("down");
  xfetch.load_time = absl::ZeroDuration();
  xfetch.Advance(kTtl - absl::Seconds(10));  // At a scale of 100 s a hit refreshes with a chance above 0.9.
  for (int half_second = 0; half_second < 20; ++half_second) {
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(xfetch.Ask(), 1);
      xfetch.background.RunAll();
    }
    EXPECT_EQ(xfetch.Loads(), half_second < 10 ? 2 : 3);
    xfetch.Advance(absl::Milliseconds(500));
  }
}

TEST(XFetchTest, Get_TogetherWithRefreshAhead_BothStartRefreshes) {
  XFetchSubject xfetch({.refresh_ahead = 0.9, .xfetch_beta = 1, .seed = 1});
  xfetch.load_time = absl::Seconds(6);
  // 12 s before the expiry, 6 s before the share: only XFetch, with a chance of exp(-2).
  const int refreshes = xfetch.HitsAt(absl::Seconds(12), 400);
  EXPECT_NEAR(refreshes, 400 * std::exp(-2), 35);
  EXPECT_EQ(xfetch.Refreshes("xfetch"), refreshes);
  EXPECT_EQ(xfetch.Refreshes("ahead"), 0);
  EXPECT_EQ(xfetch.HitsAt(absl::Seconds(6), 100), 100);
  EXPECT_EQ(xfetch.Refreshes("ahead"), 100);
}

TEST(XFetchTest, Seed_TheSameOne_DrawsTheSame) {
  const auto draw = [](uint64_t seed) {
    XFetchSubject xfetch({.xfetch_beta = 1, .seed = seed});
    std::vector<bool> drawn;
    for (int i = 0; i < 200; ++i) drawn.push_back(xfetch.HitsAt(absl::Milliseconds(70), 1) > 0);
    return drawn;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

}  // namespace
}  // namespace stockade::testing
