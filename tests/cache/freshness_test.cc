#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <stdexcept>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// A cache whose loads return their number, or what `outcome` says.
struct CountingCache {
  explicit CountingCache(LoadingCacheOptions options)
      : cache(With(std::move(options), this), [this](const int&, LoadContext& load) -> absl::StatusOr<int> {
          ++loads;
          load.AddTag("table");
          if (loader_ttl.has_value()) load.set_ttl(*loader_ttl);
          if (!outcome.ok()) return outcome;
          return loads;
        }) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, CountingCache* self) {
    options.clock = &self->clock;
    options.metrics = &self->registry;
    return options;
  }

  ManualClock clock;
  MetricsRegistry registry;
  InlineExecutor inline_executor;
  int loads = 0;
  absl::Status outcome;
  std::optional<absl::Duration> loader_ttl;
  IntCache cache;
};

TEST(TtlTest, Get_AtTheInstantOfExpiry_LoadsAnew) {
  CountingCache counting({.ttl = absl::Seconds(10)});
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.clock.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.clock.Advance(absl::Nanoseconds(1));
  EXPECT_FALSE(counting.cache.GetIfPresent(1).has_value());
  EXPECT_EQ(**counting.cache.Get(1), 2);
}

TEST(TtlTest, ZeroOrNegative_IsReturnedAndNotStored) {
  for (const absl::Duration ttl : {absl::ZeroDuration(), -absl::Seconds(1), -absl::InfiniteDuration()}) {
    CountingCache by_option({.ttl = ttl});
    EXPECT_EQ(**by_option.cache.Get(1), 1);
    EXPECT_EQ(by_option.cache.size(), 0);
    EXPECT_EQ(**by_option.cache.Get(1), 2);

    CountingCache by_loader({});
    by_loader.loader_ttl = ttl;
    EXPECT_EQ(**by_loader.cache.Get(1), 1);
    EXPECT_EQ(by_loader.cache.size(), 0);

    CountingCache by_put({});
    by_put.cache.Put(1, 50);
    by_put.cache.Put(1, 60, ttl);
    EXPECT_FALSE(by_put.cache.GetIfPresent(1).has_value());
  }
}

TEST(TtlTest, InfiniteOrOverflowing_Saturates) {
  for (const absl::Duration ttl : {absl::InfiniteDuration(), absl::Hours(24 * 365 * 1'000)}) {
    CountingCache counting({.ttl = absl::Hours(1),
                            .ttl_jitter = 1,
                            .refresh_ahead = 0.5,
                            .stale_if_error = absl::InfiniteDuration(),
                            .refresh_executor = nullptr});
    counting.loader_ttl = ttl;
    EXPECT_EQ(**counting.cache.Get(1), 1);
    counting.clock.Advance(absl::Hours(24 * 365 * 200));
    EXPECT_EQ(**counting.cache.Get(1), 1);
    EXPECT_EQ(Metric(counting.registry, "stockade_cache_refreshes_total"), 0);
  }
}

TEST(TtlTest, SetByTheLoaderOrThePut_ReplacesTheCaches) {
  CountingCache counting({.ttl = absl::Seconds(10)});
  counting.loader_ttl = absl::Seconds(20);
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.cache.Put(2, 50, absl::Seconds(30));
  counting.clock.Advance(absl::Seconds(19));
  EXPECT_TRUE(counting.cache.GetIfPresent(1).has_value());
  counting.clock.Advance(absl::Seconds(1));
  EXPECT_FALSE(counting.cache.GetIfPresent(1).has_value());
  EXPECT_TRUE(counting.cache.GetIfPresent(2).has_value());
  counting.clock.Advance(absl::Seconds(10));
  EXPECT_FALSE(counting.cache.GetIfPresent(2).has_value());
}

TEST(TtlTest, Jitter_TenThousandEqualTtls_SpreadWithinItsBound) {
  constexpr int kKeys = 10'000;
  CountingCache counting({.max_weight = 2 * kKeys, .ttl = absl::Seconds(100), .ttl_jitter = 0.2, .seed = 42});
  for (int key = 0; key < kKeys; ++key) counting.cache.Put(key, 0);
  const auto present = [&] {
    int count = 0;
    for (int key = 0; key < kKeys; ++key) count += counting.cache.GetIfPresent(key).has_value();
    return count;
  };
  counting.clock.Advance(absl::Seconds(80) - absl::Nanoseconds(1));
  int before = present();
  EXPECT_EQ(before, kKeys);
  // Each twentieth of the spread takes about a twentieth of them: 500, with a standard deviation of 22.
  for (int step = 1; step < 20; ++step) {
    counting.clock.Advance(absl::Seconds(1));
    const int after = present();
    EXPECT_NEAR(before - after, kKeys / 20, 150);
    before = after;
  }
  counting.clock.Advance(absl::Seconds(1) + absl::Nanoseconds(1));
  EXPECT_EQ(present(), 0);
}

TEST(TtlTest, WallClockJumps_ChangeNothing) {
  CountingCache counting({.ttl = absl::Seconds(10)});
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.clock.StepWallTime(absl::Hours(1'000));
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.clock.StepWallTime(-absl::Hours(5'000));
  counting.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**counting.cache.Get(1), 2);
}

TEST(NegativeTest, Get_NotFound_IsRememberedForItsOwnTtl) {
  CountingCache counting({.ttl = absl::Hours(1), .negative_ttl = absl::Seconds(5)});
  counting.outcome = absl::NotFoundError("no row");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  EXPECT_EQ(counting.loads, 1);
  EXPECT_FALSE(counting.cache.GetIfPresent(1).has_value());
  EXPECT_EQ(Requests(counting.registry, "negative"), 3);
  counting.clock.Advance(absl::Seconds(5));
  EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  EXPECT_EQ(counting.loads, 2);
}

TEST(NegativeTest, Get_NotFoundWithATtlOfItsOwn_IsRememberedForThat) {
  for (const absl::Duration negative_ttl : {absl::ZeroDuration(), absl::Seconds(5)}) {
    CountingCache counting({.negative_ttl = negative_ttl});
    counting.outcome = absl::NotFoundError("no row");
    counting.loader_ttl = absl::Seconds(20);
    EXPECT_FALSE(counting.cache.Get(1).ok());
    counting.clock.Advance(absl::Seconds(20) - absl::Nanoseconds(1));
    EXPECT_FALSE(counting.cache.Get(1).ok());
    EXPECT_EQ(counting.loads, 1);
    counting.clock.Advance(absl::Nanoseconds(1));
    counting.loader_ttl = absl::ZeroDuration();  // Not remembered.
    EXPECT_FALSE(counting.cache.Get(1).ok());
    EXPECT_FALSE(counting.cache.Get(1).ok());
    EXPECT_EQ(counting.loads, 3);
  }
}

TEST(NegativeTest, Put_ReplacesAnAbsence) {
  CountingCache counting({.negative_ttl = absl::Seconds(5)});
  counting.outcome = absl::NotFoundError("no row");
  EXPECT_FALSE(counting.cache.Get(1).ok());
  counting.cache.Put(1, 50);
  EXPECT_EQ(**counting.cache.Get(1), 50);
  EXPECT_EQ(counting.cache.size(), 1);
}

TEST(NegativeTest, Invalidate_ForgetsAnAbsence) {
  CountingCache counting({.negative_ttl = absl::Seconds(5)});
  counting.outcome = absl::NotFoundError("no row");
  EXPECT_FALSE(counting.cache.Get(1).ok());
  counting.cache.Invalidate(1);
  counting.outcome = absl::OkStatus();
  EXPECT_EQ(**counting.cache.Get(1), 2);
}

TEST(NegativeTest, Get_OffOrAnotherError_IsNotRemembered) {
  CountingCache off({});
  off.outcome = absl::NotFoundError("no row");
  CountingCache other({.negative_ttl = absl::Seconds(5)});
  other.outcome = absl::UnavailableError("down");
  for (CountingCache* const counting : {&off, &other}) {
    EXPECT_FALSE(counting->cache.Get(1).ok());
    EXPECT_FALSE(counting->cache.Get(1).ok());
    EXPECT_EQ(counting->loads, 2);
    EXPECT_EQ(counting->cache.size(), 0);
  }
}

TEST(StaleIfErrorTest, Get_LoadFails_ServesTheOldValueUntilItsMaximumAge) {
  CountingCache counting(
      {.ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(60), .retry_backoff = absl::Seconds(5)});
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.outcome = absl::UnavailableError("down");
  counting.clock.Advance(absl::Seconds(10));
  for (int second = 0; second < 60; ++second) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(**counting.cache.Get(1), 1);
    counting.clock.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(counting.loads, 1 + 60 / 5);
  EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  EXPECT_EQ(Requests(counting.registry, "stale"), 180);
  EXPECT_EQ(Requests(counting.registry, "miss"), 2);
}

TEST(StaleIfErrorTest, Get_LoadSucceedsAgain_IsFresh) {
  CountingCache counting({.ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(60)});
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.outcome = absl::UnavailableError("down");
  counting.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**counting.cache.Get(1), 1);
  EXPECT_FALSE(counting.cache.GetIfPresent(1).has_value());
  counting.outcome = absl::OkStatus();
  counting.clock.Advance(absl::Seconds(1));
  EXPECT_EQ(**counting.cache.Get(1), 3);
  EXPECT_EQ(counting.cache.size(), 1);
}

TEST(StaleIfErrorTest, Get_InvalidatedOrNotFound_IsNeverServedStale) {
  CountingCache counting({.ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(60)});
  EXPECT_EQ(**counting.cache.Get(1), 1);
  EXPECT_EQ(**counting.cache.Get(2), 2);
  counting.clock.Advance(absl::Seconds(10));
  counting.outcome = absl::UnavailableError("down");
  counting.cache.Invalidate(1);
  EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  counting.outcome = absl::NotFoundError("no row");
  EXPECT_EQ(counting.cache.Get(2).status(), counting.outcome);
  counting.outcome = absl::UnavailableError("down");
  EXPECT_EQ(counting.cache.Get(2).status(), counting.outcome);
}

TEST(StaleIfErrorTest, Get_MaximumAgePassesDuringTheFailingLoad_TheErrorIsGiven) {
  ManualClock clock;
  IntCache cache({.ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(60), .clock = &clock, .metrics = nullptr},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   clock.Advance(absl::Seconds(1));
                   return absl::UnavailableError("down");
                 });
  cache.Put(1, 50);
  clock.Advance(absl::Seconds(68));
  EXPECT_EQ(**cache.Get(1), 50);
  cache.Put(2, 50);
  clock.Advance(absl::Seconds(69));
  EXPECT_EQ(cache.Get(2).status().code(), absl::StatusCode::kUnavailable);
}

// A flight that was invalidated while it ran fails: its waiters get the error, not the value from before.
TEST(StaleIfErrorTest, Get_InvalidatedDuringTheFailingLoad_IsNotServedStale) {
  ManualClock clock;
  IntCache* self = nullptr;
  IntCache cache({.ttl = absl::Seconds(10), .stale_if_error = absl::Hours(1), .clock = &clock, .metrics = nullptr},
                 [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   self->Invalidate(key);
                   return absl::UnavailableError("down");
                 });
  self = &cache;
  cache.Put(1, 50);
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(cache.Get(1).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ErrorTtlTest, Get_LoadsFail_OneLoadForSoLong) {
  CountingCache off({});
  CountingCache on({.error_ttl = absl::Seconds(5)});
  off.outcome = on.outcome = absl::UnavailableError("down");
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(off.cache.Get(1).status(), off.outcome);
    EXPECT_EQ(on.cache.Get(1).status(), on.outcome);
  }
  EXPECT_EQ(off.loads, 1'000);
  EXPECT_EQ(on.loads, 1);
  EXPECT_EQ(Requests(on.registry, "negative"), 999);
  EXPECT_FALSE(on.cache.GetIfPresent(1).has_value());
  EXPECT_EQ(Text(on.cache.GetAll({1})[0]), "UNAVAILABLE");
  on.clock.Advance(absl::Seconds(5));
  on.outcome = absl::OkStatus();
  EXPECT_EQ(**on.cache.Get(1), 2);
}

TEST(ErrorTtlTest, Get_AnOldValueStandsIn_IsNotDisplaced) {
  CountingCache counting({.ttl = absl::Seconds(10),
                          .error_ttl = absl::Minutes(10),
                          .stale_if_error = absl::Minutes(1),
                          .retry_backoff = absl::Seconds(1)});
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.clock.Advance(absl::Seconds(10));
  counting.outcome = absl::UnavailableError("down");
  EXPECT_EQ(**counting.cache.Get(1), 1);
  counting.clock.Advance(absl::Minutes(1));
  EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  EXPECT_EQ(counting.loads, 3);
  EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  EXPECT_EQ(counting.loads, 3);
}

TEST(ErrorTtlTest, Get_CancelledOrTheCallsOwnDeadline_IsNotRemembered) {
  CountingCache counting({.error_ttl = absl::Minutes(1)});
  counting.outcome = absl::CancelledError("stop");
  EXPECT_FALSE(counting.cache.Get(1).ok());
  EXPECT_FALSE(counting.cache.Get(1).ok());
  EXPECT_EQ(counting.loads, 2);
  EXPECT_EQ(counting.cache.Get(2, {.timeout = absl::ZeroDuration()}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  counting.outcome = absl::OkStatus();
  EXPECT_EQ(**counting.cache.Get(2), 3);
}

TEST(ErrorTtlTest, InvalidatePutAndRefresh_ForgetTheError) {
  CountingCache counting({.error_ttl = absl::Hours(1)});
  const auto fail = [&](int key) {
    counting.outcome = absl::UnavailableError("down");
    EXPECT_FALSE(counting.cache.Get(key).ok());
    EXPECT_EQ(counting.cache.size(), 1);
    counting.outcome = absl::OkStatus();
  };
  fail(1);
  counting.cache.Invalidate(1);
  EXPECT_EQ(**counting.cache.Get(1), 2);
  counting.cache.InvalidateAll();
  fail(2);
  counting.cache.InvalidateTag("table");
  EXPECT_EQ(**counting.cache.Get(2), 4);
  counting.cache.InvalidateAll();
  fail(3);
  counting.cache.Put(3, 50);
  EXPECT_EQ(**counting.cache.Get(3), 50);
  counting.cache.InvalidateAll();
  fail(4);
  counting.cache.Refresh(4);
  EXPECT_EQ(**counting.cache.Get(4), 7);
}

TEST(ErrorTtlTest, InvalidateTag_OfAnErrorThatTheLoaderThrew_ForgetsIt) {
  int loads = 0;
  IntCache cache({.error_ttl = absl::Hours(1), .metrics = nullptr},
                 [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
                   load.AddTag("table");
                   if (++loads == 1) throw std::runtime_error("down");
                   return 1;
                 });
  EXPECT_EQ(Text(cache.Get(1)), "INTERNAL");
  cache.InvalidateTag("another");
  EXPECT_EQ(Text(cache.Get(1)), "INTERNAL");
  cache.InvalidateTag("table");
  EXPECT_EQ(Text(cache.Get(1)), "1");
}

TEST(ErrorTtlTest, InvalidateTag_DuringALoadThatThrows_ItsErrorIsNotRemembered) {
  int loads = 0;
  IntCache* self = nullptr;
  IntCache cache({.error_ttl = absl::Hours(1), .metrics = nullptr},
                 [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
                   load.AddTag("table");
                   if (++loads > 1) return 1;
                   self->InvalidateTag("table");
                   throw std::runtime_error("down");
                 });
  self = &cache;
  EXPECT_EQ(Text(cache.Get(1)), "INTERNAL");
  EXPECT_EQ(Text(cache.Get(1)), "1");
}

TEST(ErrorTtlTest, InvalidateTag_OfALoadThatPassedItsHardTimeout_ForgetsTheError) {
  ManualClock clock;
  int loads = 0;
  IntCache cache(
      {.error_ttl = absl::Hours(1), .load_hard_timeout = absl::Seconds(1), .clock = &clock, .metrics = nullptr},
      [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
        load.AddTag("table");
        if (++loads == 1) clock.Advance(absl::Seconds(2));
        return 1;
      });
  EXPECT_EQ(Text(cache.Get(1)), "DEADLINE_EXCEEDED");
  cache.InvalidateTag("table");
  EXPECT_EQ(Text(cache.Get(1)), "1");
}

TEST(ErrorTtlTest, SetTtl_ZeroOrNegative_TheErrorIsNotRemembered_AndNoOtherTtlCounts) {
  CountingCache counting({.error_ttl = absl::Seconds(5)});
  counting.outcome = absl::UnavailableError("down");
  for (const absl::Duration ttl : {absl::ZeroDuration(), -absl::Seconds(1)}) {
    counting.loader_ttl = ttl;
    EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
    EXPECT_EQ(counting.cache.size(), 0);
  }
  counting.loader_ttl = absl::Hours(1);
  EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  EXPECT_EQ(counting.loads, 3);
  counting.clock.Advance(absl::Seconds(5) - absl::Nanoseconds(1));
  EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  EXPECT_EQ(counting.loads, 3);
  counting.clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(counting.cache.Get(1).status(), counting.outcome);
  EXPECT_EQ(counting.loads, 4);
}

TEST(ErrorTtlTest, Get_LoadPassesItsHardTimeout_IsRemembered) {
  ManualClock clock;
  int loads = 0;
  IntCache cache(
      {.error_ttl = absl::Seconds(5), .load_hard_timeout = absl::Seconds(1), .clock = &clock, .metrics = nullptr},
      [&](const int&, LoadContext&) -> absl::StatusOr<int> {
        ++loads;
        clock.Advance(absl::Seconds(2));
        return 1;
      });
  EXPECT_EQ(Text(cache.Get(1)), "DEADLINE_EXCEEDED");
  EXPECT_EQ(Text(cache.Get(1)), "DEADLINE_EXCEEDED");
  EXPECT_EQ(loads, 1);
}

// Errors are within the bound as all entries are.
TEST(ErrorTtlTest, Get_ManyKeysFail_TheBoundHolds) {
  CountingCache counting({.max_weight = 10, .error_ttl = absl::Hours(1)});
  counting.outcome = absl::UnavailableError("down");
  for (int key = 0; key < 100; ++key) {
    EXPECT_FALSE(counting.cache.Get(key).ok());
    EXPECT_LE(counting.cache.weight(), 10);
  }
}

}  // namespace
}  // namespace stockade::testing
