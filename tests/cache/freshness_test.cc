// How long values, absences and errors are served, and when they are loaded again.

#include "stockade/cache/internal/freshness.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cache/subject.h"

namespace stockade::testing {
namespace {

constexpr absl::Duration kInstant = absl::Nanoseconds(1);

absl::Status Down() { return absl::UnavailableError("down"); }
absl::Status NoRow() { return absl::NotFoundError("no row"); }

class FreshnessTest : public ShapeTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, FreshnessTest, ::testing::ValuesIn(Shapes()), NameOf);

// The loader ends before its call is answered.
class OwnLoadTest : public FreshnessTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, OwnLoadTest, ::testing::ValuesIn(Shapes({false})), NameOf);

// The ways to invalidate the key 1, which has the tag "shoes". A loader of the key may use the first ones.
using Way = std::function<void(Subject&)>;
constexpr size_t kWaysOfLoaders = 3;
std::vector<Way> Ways() {
  return {[](Subject& subject) { subject.Invalidate(); }, [](Subject& subject) { subject.InvalidateTag("shoes"); },
          [](Subject& subject) { subject.InvalidateAll(); },
          [](Subject& subject) { subject.Put(1, 70, {.ttl = absl::ZeroDuration()}); },
          [](Subject& subject) { EXPECT_TRUE(subject.Update().ok()); }};
}

TEST_P(FreshnessTest, Ttl_OfAValue_EndsAtItsInstantWhateverTheWallClockSays) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10)});
  EXPECT_EQ(subject.Ask(), 1);
  subject.clock.StepWallTime(absl::Hours(1'000));
  subject.Advance(absl::Seconds(10) - kInstant);
  EXPECT_EQ(subject.Ask(), 1);
  subject.clock.StepWallTime(-absl::Hours(5'000));
  subject.Advance(kInstant);
  EXPECT_EQ(subject.Ask(), 2);
  subject.Advance(absl::Seconds(10));
  EXPECT_EQ(subject.Present(), "nothing");
  EXPECT_EQ(subject.Ask(), 3);
}

TEST_P(FreshnessTest, Ttl_ZeroOrNegative_IsReturnedAndNotStored) {
  for (const absl::Duration ttl : {absl::ZeroDuration(), -absl::Seconds(1), -absl::InfiniteDuration()}) {
    for (const bool by_loader : {false, true}) {
      LoadingCacheOptions options{.ttl = by_loader ? absl::InfiniteDuration() : ttl};
      if (!by_loader && ttl == absl::ZeroDuration()) options.stale_while_revalidate = absl::InfiniteDuration();
      Subject subject(GetParam(), options);
      if (by_loader) subject.entry.ttl = ttl;
      EXPECT_EQ(subject.Ask(), 1);
      EXPECT_EQ(subject.size(), 0);
      EXPECT_EQ(subject.Ask(), 2);
    }
    Subject by_put(GetParam());
    by_put.Put(1, 50);
    by_put.Put(1, 60, {.ttl = ttl});
    EXPECT_EQ(by_put.Present(), "nothing");
    EXPECT_EQ(by_put.size(), 0);
  }
}

TEST_P(FreshnessTest, Ttl_InfiniteOrOverflowing_Saturates) {
  for (const absl::Duration ttl : {absl::InfiniteDuration(), absl::Hours(24 * 365 * 1'000)}) {
    Subject subject(
        GetParam(),
        {.ttl = absl::Hours(1), .ttl_jitter = 1, .refresh_ahead = 0.5, .stale_if_error = absl::InfiniteDuration()});
    subject.entry.ttl = ttl;
    EXPECT_EQ(subject.Ask(), 1);
    subject.Advance(absl::Hours(24 * 365 * 200));
    EXPECT_EQ(subject.Ask(), 1);
    EXPECT_EQ(subject.Refreshes({}), 0);
  }
}

TEST_P(FreshnessTest, Ttl_OfTheLoaderOrThePut_ReplacesTheCaches) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10)});
  subject.entry.ttl = absl::Seconds(20);
  EXPECT_EQ(subject.Ask(), 1);
  subject.Put(2, 50, {.ttl = absl::Seconds(30)});
  subject.Put(3, 60, {.ttl = absl::Seconds(2)});
  subject.Put(3, 61, {.ttl = absl::InfiniteDuration()});
  subject.Put(4, 70);
  subject.Advance(absl::Seconds(6));
  subject.Put(4, 71);  // Begins another time to live.
  subject.Put(5, 80);
  subject.Put(5, 81, {.ttl = absl::Seconds(2)});
  subject.Advance(absl::Seconds(2));
  EXPECT_EQ(subject.Present(5), "nothing");
  subject.Advance(absl::Seconds(8) - kInstant);
  EXPECT_EQ(subject.Present(4), 71);
  subject.Advance(kInstant);
  EXPECT_EQ(subject.Present(4), "nothing");
  subject.Advance(absl::Seconds(4) - kInstant);
  EXPECT_EQ(subject.Present(1), 1);
  subject.Advance(kInstant);
  EXPECT_EQ(subject.Present(1), "nothing");
  subject.Advance(absl::Seconds(10) - kInstant);
  EXPECT_EQ(subject.Present(2), 50);
  subject.Advance(kInstant);
  EXPECT_EQ(subject.Present(2), "nothing");
  subject.Advance(absl::Hours(1000));
  EXPECT_EQ(subject.Present(3), 61);
}

TEST(TtlTest, JitterAndRefreshAhead_TheShareIsOfTheShortenedLife) {
  cache_internal::Freshness freshness({.ttl = absl::Seconds(100), .ttl_jitter = 1, .refresh_ahead = 0.5, .seed = 42});
  const Instant now = Instant() + absl::Hours(1);
  for (int i = 0; i < 100; ++i) {
    const auto times = freshness.OfValue(now, std::nullopt, absl::ZeroDuration());
    EXPECT_NEAR(absl::ToDoubleSeconds(times->refresh_at - now), absl::ToDoubleSeconds(times->expires_at - now) / 2,
                1e-6);
  }
}

TEST(TtlTest, Jitter_TenThousandEqualTtls_SpreadWithinItsBound) {
  constexpr int kKeys = 10'000;
  Subject subject({}, {.max_weight = 2 * kKeys, .ttl = absl::Seconds(100), .ttl_jitter = 0.2, .seed = 42});
  for (int key = 1; key <= kKeys; ++key) subject.Put(key, 0);
  const auto present = [&] {
    int count = 0;
    for (int key = 1; key <= kKeys; ++key) count += subject.Present(key) == 0;
    return count;
  };
  subject.Advance(absl::Seconds(80) - kInstant);
  int before = present();
  EXPECT_EQ(before, kKeys);
  // Each twentieth of the spread takes about a twentieth of them: 500, with a standard deviation of 22.
  for (int step = 1; step < 20; ++step) {
    subject.Advance(absl::Seconds(1));
    const int after = present();
    EXPECT_NEAR(before - after, kKeys / 20, 150);
    before = after;
  }
  subject.Advance(absl::Seconds(1) + kInstant);
  EXPECT_EQ(present(), 0);
}

TEST_P(FreshnessTest, NotFound_WithNegativeTtl_IsRememberedForThatAndNeverStale) {
  Subject subject(
      GetParam(),
      {.ttl = absl::Hours(1), .negative_ttl = absl::Seconds(5), .stale_while_revalidate = absl::Seconds(50)});
  subject.outcome = NoRow();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(subject.Ask(), subject.outcome);
  EXPECT_EQ(subject.Loads(), 1);
  EXPECT_EQ(subject.Present(), "nothing");
  EXPECT_EQ(subject.Requests("negative"), 3);
  subject.Advance(absl::Seconds(5) - kInstant);
  EXPECT_EQ(subject.Ask(), subject.outcome);
  EXPECT_EQ(subject.Loads(), 1);
  subject.Advance(kInstant);
  EXPECT_EQ(subject.Ask(), subject.outcome);
  EXPECT_EQ(subject.Loads(), 2);
  subject.Advance(absl::Seconds(5));
  subject.outcome = absl::OkStatus();
  EXPECT_EQ(subject.Ask(), 3);
}

TEST_P(FreshnessTest, NotFound_WithATtlOfItsOwn_IsRememberedForThat) {
  for (const absl::Duration negative_ttl : {absl::ZeroDuration(), absl::Seconds(5)}) {
    Subject subject(GetParam(), {.negative_ttl = negative_ttl});
    subject.outcome = NoRow();
    subject.entry = {.ttl = absl::Seconds(20), .tags = {"shoes"}};
    EXPECT_EQ(subject.Ask(), subject.outcome);
    subject.Advance(absl::Seconds(20) - kInstant);
    EXPECT_EQ(subject.Ask(), subject.outcome);
    EXPECT_EQ(subject.Loads(), 1);
    subject.Advance(kInstant);
    subject.entry.ttl = absl::ZeroDuration();  // Not remembered.
    EXPECT_EQ(subject.Ask(), subject.outcome);
    EXPECT_EQ(subject.Ask(), subject.outcome);
    EXPECT_EQ(subject.Loads(), 3);
  }
}

TEST_P(FreshnessTest, NotFoundOrError_WithoutATtlForIt_IsNotRemembered) {
  for (const bool absent : {false, true}) {
    Subject subject(GetParam(), {.negative_ttl = absent ? absl::ZeroDuration() : absl::Seconds(5)});
    subject.outcome = absent ? NoRow() : Down();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(subject.Ask(), subject.outcome);
    EXPECT_EQ(subject.Loads(), 3);
    EXPECT_EQ(subject.size(), 0);
  }
}

TEST_P(FreshnessTest, NotFoundOrError_IsRemembered_APutReplacesIt) {
  for (const absl::Status& outcome : {NoRow(), Down()}) {
    Subject subject(GetParam(), {.negative_ttl = absl::Seconds(5), .error_ttl = absl::Seconds(5)});
    subject.outcome = outcome;
    EXPECT_EQ(subject.Ask(), outcome);
    EXPECT_EQ(subject.size(), 1);
    subject.Put(1, 50);
    EXPECT_EQ(subject.Ask(), 50);
    EXPECT_EQ(subject.size(), 1);
  }
}

TEST_P(FreshnessTest, NotFound_AfterAValue_TakesItsPlace) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(60)});
  EXPECT_EQ(subject.Ask(), 1);
  subject.Advance(absl::Seconds(10));
  subject.outcome = NoRow();
  EXPECT_EQ(subject.Ask(), subject.outcome);
  subject.outcome = Down();
  EXPECT_EQ(subject.Ask(), subject.outcome);
}

TEST_P(FreshnessTest, StaleIfError_LoadsFail_OldValueUntilItsMaximumAgeAndOneTryPerBackoff) {
  Subject subject(GetParam(),
                  {.ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(60), .retry_backoff = absl::Seconds(5)});
  EXPECT_EQ(subject.Ask(), 1);
  subject.outcome = Down();
  subject.Advance(absl::Seconds(10));
  for (int second = 0; second < 60; ++second) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(subject.Ask(), 1);
    EXPECT_EQ(subject.Loads(), 2 + second / 5);
    subject.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(subject.Ask(), subject.outcome);
  EXPECT_EQ(subject.Requests("stale"), 180);
  EXPECT_EQ(subject.Requests("miss"), 2);
}

TEST_P(FreshnessTest, StaleIfError_LoadSucceedsAgain_IsFresh) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(60)});
  EXPECT_EQ(subject.Ask(), 1);
  subject.outcome = Down();
  subject.Advance(absl::Seconds(10));
  EXPECT_EQ(subject.Ask(), 1);
  EXPECT_EQ(subject.Present(), "nothing");
  subject.outcome = absl::OkStatus();
  subject.Advance(absl::Seconds(1));
  EXPECT_EQ(subject.Ask(), 3);
  EXPECT_EQ(subject.size(), 1);
}

TEST_P(FreshnessTest, StaleIfError_MaximumAgePassesDuringTheFailingLoad_TheErrorIsGiven) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(60)});
  subject.load = [&](const Load&) {
    subject.Advance(absl::Seconds(1));
    return Down();
  };
  subject.Put(1, 50);
  subject.Advance(absl::Seconds(68));
  EXPECT_EQ(subject.Ask(), 50);
  subject.Put(2, 50);
  subject.Advance(absl::Seconds(69));
  EXPECT_EQ(subject.Ask(2), Down());
}

// Before the load, or while it runs.
TEST_P(FreshnessTest, StaleIfError_ValueWasInvalidated_TheErrorIsGiven) {
  for (size_t way = 0; way < Ways().size(); ++way) {
    for (const bool during : {false, true}) {
      if (during && way >= kWaysOfLoaders) continue;
      Subject subject(GetParam(), {.ttl = absl::Seconds(10), .stale_if_error = absl::Hours(1)});
      subject.load = [&](const Load&) {
        if (during) Ways()[way](subject);
        return Down();
      };
      subject.Put(1, 50, {.tags = {"shoes"}});
      subject.Advance(absl::Seconds(10));
      if (!during) {
        EXPECT_EQ(subject.Ask(), 50);
        Ways()[way](subject);
      }
      for (int i = 0; i < 2; ++i) EXPECT_EQ(subject.Ask(), Down());
      EXPECT_EQ(subject.size(), 0);
    }
  }
}

TEST_P(FreshnessTest, ErrorTtl_LoadsFail_OneLoadForSoLong) {
  Subject subject(GetParam(), {.error_ttl = absl::Seconds(5)});
  subject.outcome = Down();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(subject.Ask(), subject.outcome);
  for (const Asker asker : kAskers) EXPECT_EQ(subject.AskAs(asker, 1), subject.outcome);
  EXPECT_EQ(subject.Loads(), 1);
  EXPECT_EQ(subject.Requests("negative"), 99 + std::size(kAskers));
  EXPECT_EQ(subject.Present(), "nothing");
  subject.Advance(absl::Seconds(5));
  subject.outcome = absl::OkStatus();
  EXPECT_EQ(subject.Ask(), 2);
}

TEST_P(FreshnessTest, ErrorTtl_AnOldValueStandsIn_IsNotDisplaced) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10),
                               .error_ttl = absl::Minutes(10),
                               .stale_if_error = absl::Minutes(1),
                               .retry_backoff = absl::Seconds(1)});
  EXPECT_EQ(subject.Ask(), 1);
  subject.Advance(absl::Seconds(10));
  subject.outcome = Down();
  EXPECT_EQ(subject.Ask(), 1);
  subject.Advance(absl::Minutes(1));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(subject.Ask(), subject.outcome);
    EXPECT_EQ(subject.Loads(), 3);
  }
}

TEST_P(FreshnessTest, ErrorTtl_CancelledOrTheCallsOwnDeadline_IsNotRemembered) {
  Subject subject(GetParam(), {.error_ttl = absl::Minutes(1)});
  subject.outcome = absl::CancelledError("stop");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(subject.Ask(), subject.outcome);
  EXPECT_EQ(subject.Loads(), 2);
  EXPECT_EQ(subject.Ask(2, {.timeout = absl::ZeroDuration()}), "DEADLINE_EXCEEDED");
  subject.outcome = absl::OkStatus();
  EXPECT_EQ(subject.Ask(2), 3);
}

TEST_P(FreshnessTest, ErrorTtl_InvalidatePutAndRefresh_ForgetTheError) {
  std::vector<Way> ways = Ways();
  ways.emplace_back([](Subject& subject) { subject.Refresh(); });
  for (const bool throws : {false, true}) {
    for (const Way& forget : ways) {
      // A batch loader that throws has not said what tags its keys have.
      if (throws && GetParam().asker == Asker::kGetAllOfThree) continue;
      Subject subject(GetParam(), {.error_ttl = absl::Hours(1)});
      subject.entry.tags = {"shoes"};
      subject.load = [&](const Load& load) -> absl::StatusOr<int> {
        if (load.number == 1 && throws) throw std::runtime_error("down");
        if (load.number == 1) return Down();
        return load.number;
      };
      EXPECT_EQ(subject.Ask(), throws ? "INTERNAL" : "UNAVAILABLE");
      subject.InvalidateTag("hats");
      EXPECT_EQ(subject.Ask(), throws ? "INTERNAL" : "UNAVAILABLE");
      EXPECT_EQ(subject.size(), 1);
      forget(subject);
      EXPECT_EQ(subject.Ask(), 2);
    }
  }
}

TEST(ErrorTtlTest, InvalidateTag_DuringALoadThatThrows_ItsErrorIsNotRemembered) {
  Subject subject({}, {.error_ttl = absl::Hours(1)});
  subject.entry.tags = {"shoes"};
  subject.load = [&](const Load& load) {
    if (load.number > 1) return load.number;
    subject.InvalidateTag("shoes");
    throw std::runtime_error("down");
  };
  EXPECT_EQ(subject.Ask(), "INTERNAL");
  EXPECT_EQ(subject.Ask(), 2);
}

TEST_P(OwnLoadTest, ErrorTtl_LoadPassesItsHardTimeout_IsRememberedWithItsTags) {
  Subject subject(GetParam(), {.error_ttl = absl::Hours(1), .load_hard_timeout = absl::Seconds(1)});
  subject.entry.tags = {"shoes"};
  subject.load = [&](const Load& load) {
    if (load.number == 1) subject.Advance(absl::Seconds(2));
    return load.number;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(subject.Ask(), "DEADLINE_EXCEEDED");
  EXPECT_EQ(subject.Loads(), 1);
  subject.InvalidateTag("shoes");
  EXPECT_EQ(subject.Ask(), 2);
}

TEST_P(FreshnessTest, ErrorTtl_SetTtlOfTheLoad_ZeroOrLessForgetsAndNoOtherCounts) {
  Subject subject(GetParam(), {.error_ttl = absl::Seconds(5)});
  subject.outcome = Down();
  for (const absl::Duration ttl : {absl::ZeroDuration(), -absl::Seconds(1)}) {
    subject.entry.ttl = ttl;
    EXPECT_EQ(subject.Ask(), subject.outcome);
    EXPECT_EQ(subject.size(), 0);
  }
  subject.entry.ttl = absl::Hours(1);
  EXPECT_EQ(subject.Ask(), subject.outcome);
  EXPECT_EQ(subject.Loads(), 3);
  subject.Advance(absl::Seconds(5) - kInstant);
  EXPECT_EQ(subject.Ask(), subject.outcome);
  EXPECT_EQ(subject.Loads(), 3);
  subject.Advance(kInstant);
  EXPECT_EQ(subject.Ask(), subject.outcome);
  EXPECT_EQ(subject.Loads(), 4);
}

// Errors count towards the bound like all entries.
TEST_P(OwnLoadTest, ErrorTtl_ManyKeysFail_TheBoundHolds) {
  Subject subject(GetParam(), {.max_weight = 12, .error_ttl = absl::Hours(1)});
  subject.outcome = Down();
  for (int key = 1; key <= 100; ++key) {
    EXPECT_EQ(subject.AskAs(Asker::kGet, key), subject.outcome);
    EXPECT_LE(subject.weight(), 10);
  }
}

TEST_P(FreshnessTest, RefreshAhead_PastTheShare_HitsOnAndLoadsOnceInTheBackground) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .refresh_ahead = 0.8});
  subject.Put(1, 50);
  subject.Advance(absl::Seconds(4));
  subject.Put(1, 60);  // It is due by its new time.
  subject.Advance(absl::Seconds(8) - kInstant);
  EXPECT_EQ(subject.Ask(), 60);
  EXPECT_EQ(subject.Refreshes({}), 0);
  subject.Advance(kInstant);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(subject.Ask(), 60);
  subject.Hold(1);
  const std::future<void> refresh = subject.RunBackground();
  subject.AwaitLoad(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(subject.Ask(), 60);
  EXPECT_EQ(subject.Refreshes("ahead"), 1);
  EXPECT_EQ(subject.Requests("hit"), 21);
  subject.Release(1);
  subject.AwaitNoFlights();
  EXPECT_EQ(subject.Ask(), 1);
  EXPECT_EQ(subject.Loads(), 1);
}

TEST_P(FreshnessTest, RefreshAhead_ValueExpiresDuringTheRefresh_JoinsIt) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .refresh_ahead = 0.5});
  subject.Put(1, 50);
  subject.Advance(absl::Seconds(5));
  EXPECT_EQ(subject.Ask(), 50);
  subject.Hold(1);
  const std::future<void> refresh = subject.RunBackground();
  subject.AwaitLoad(1);
  subject.Advance(absl::Seconds(5));
  Pending waiter = subject.AskLater();
  subject.AwaitParked(1, 0);
  subject.Release(1);
  EXPECT_EQ(waiter.get(), 1);
  EXPECT_EQ(subject.Loads(), 1);
}

// The queued task runs when the load has ended.
TEST_P(FreshnessTest, RefreshAhead_IsStuckInItsExecutor_TheCallRunsTheLoad) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .refresh_ahead = 0.5});
  subject.Put(1, 50);
  subject.Advance(absl::Seconds(5));
  EXPECT_EQ(subject.Ask(), 50);
  subject.Advance(absl::Seconds(5));
  EXPECT_EQ(subject.Ask(), 1);
  subject.background.RunAll();
  EXPECT_EQ(subject.Loads(), 1);
}

TEST_P(FreshnessTest, RefreshAhead_RefreshFails_OneTryPerBackoffAndTheValueStays) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(100), .refresh_ahead = 0.5, .retry_backoff = absl::Seconds(10)});
  subject.outcome = Down();
  subject.Put(1, 50);
  subject.Advance(absl::Seconds(50));
  for (int second = 0; second < 50; ++second) {
    EXPECT_EQ(subject.Ask(), 50);
    subject.background.RunAll();
    EXPECT_EQ(subject.Loads(), 1 + second / 10);
    subject.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(subject.Ask(), subject.outcome);
}

TEST_P(FreshnessTest, Refresh_FindsTheKeyGone_TheValueGoes) {
  for (const absl::Duration negative_ttl : {absl::ZeroDuration(), absl::Hours(1)}) {
    for (const absl::Duration age : {absl::Seconds(5), absl::Seconds(10)}) {  // Refreshed ahead, or stale.
      Subject subject(GetParam(), {.ttl = absl::Seconds(10),
                                   .refresh_ahead = 0.5,
                                   .negative_ttl = negative_ttl,
                                   .stale_while_revalidate = absl::Seconds(50)});
      subject.Put(1, 50);
      subject.outcome = NoRow();
      subject.Advance(age);
      EXPECT_EQ(subject.Ask(), 50);
      subject.background.RunAll();
      const bool remembered = negative_ttl > absl::ZeroDuration();
      EXPECT_EQ(subject.size(), remembered);
      EXPECT_EQ(subject.Ask(), subject.outcome);
      EXPECT_EQ(subject.Loads(), remembered ? 1 : 2);
    }
  }
}

TEST_P(FreshnessTest, StaleWhileRevalidate_WithinTheWindow_TheOldValueAtOnceAndOneRefresh) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .stale_while_revalidate = absl::Seconds(20)});
  for (const int key : {1, 2, 3}) subject.Put(key, 50 + key);
  subject.Advance(absl::Seconds(10) - kInstant);
  EXPECT_EQ(subject.Ask(), 51);
  EXPECT_EQ(subject.Requests("stale"), 0);
  EXPECT_EQ(subject.background.scheduled(), 0U);
  subject.Advance(kInstant);
  EXPECT_EQ(subject.Present(), "nothing");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(subject.Ask(), 51);
  EXPECT_EQ(subject.Ask(1, {.timeout = absl::ZeroDuration()}), 51);
  EXPECT_EQ(subject.Present(), "nothing");
  EXPECT_EQ(subject.background.scheduled(), 1U);
  EXPECT_EQ(subject.Refreshes("stale"), 1);
  EXPECT_EQ(subject.Requests("stale"), 11);
  EXPECT_EQ(subject.Loads(), 0);
  subject.background.RunAll();
  EXPECT_EQ(subject.Ask(), 1);
  EXPECT_EQ(subject.Requests("hit"), 2);
  EXPECT_EQ(subject.Requests("miss"), 2) << "those of GetIfPresent()";
  EXPECT_EQ(subject.Refreshes("ahead"), 0);
  subject.Advance(absl::Seconds(20) - kInstant);
  EXPECT_EQ(subject.Ask(2), 52);
  subject.Advance(kInstant);
  EXPECT_EQ(subject.Ask(3, {.timeout = absl::ZeroDuration()}), "DEADLINE_EXCEEDED");
  EXPECT_EQ(subject.Ask(3), 2);
  EXPECT_EQ(subject.Requests("miss"), 4);
}

TEST_P(FreshnessTest, StaleWhileRevalidate_LoaderHangs_NoCallWaitsBeforeTheWindowEnds) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .stale_while_revalidate = absl::Seconds(20)});
  subject.Put(1, 50);
  subject.Advance(absl::Seconds(10));
  subject.Hold(1);
  EXPECT_EQ(subject.Ask(), 50);
  const std::future<void> refresh = subject.RunBackground();
  subject.AwaitLoad(1);
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] {
        for (int n = 0; n < 50; ++n) EXPECT_EQ(subject.Ask(), 50);
      });
    }
  }
  EXPECT_EQ(subject.Requests("stale"), 401);
  subject.Advance(absl::Seconds(20));
  Pending waiter = subject.AskLater();
  subject.AwaitParked(1, 0);
  subject.Release(1);
  EXPECT_EQ(waiter.get(), 1);
  EXPECT_EQ(subject.Loads(), 1);
  EXPECT_EQ(subject.Requests("coalesced"), 1);
  EXPECT_EQ(subject.Refreshes("stale"), 1);
}

TEST_P(FreshnessTest, StaleWhileRevalidate_NoWindow_LoadsAtExpiry) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10)});
  subject.Put(1, 50);
  subject.Advance(absl::Seconds(10));
  EXPECT_EQ(subject.Ask(), 1);
  EXPECT_EQ(subject.Requests("stale"), 0);
}

// No call waits within the first window, also if the second one is longer.
TEST_P(FreshnessTest, StaleWhileRevalidate_RefreshesFail_OneTryPerBackoffToTheEndOfBothWindows) {
  struct Windows {
    int revalidate, if_error;
  };
  for (const Windows windows : {Windows{50, 0}, Windows{10, 30}, Windows{30, 10}}) {
    Subject subject(GetParam(), {.ttl = absl::Seconds(10),
                                 .stale_while_revalidate = absl::Seconds(windows.revalidate),
                                 .stale_if_error = absl::Seconds(windows.if_error),
                                 .retry_backoff = absl::Seconds(5)});
    subject.Put(1, 50);
    subject.outcome = Down();
    subject.Advance(absl::Seconds(10));
    const int seconds = std::max(windows.revalidate, windows.if_error);
    for (int second = 0; second < seconds; ++second) {
      const int before = subject.Loads();
      EXPECT_EQ(subject.Ask(), 50);
      if (second < windows.revalidate) EXPECT_EQ(subject.Loads(), before);
      subject.background.RunAll();
      EXPECT_EQ(subject.Loads(), 1 + second / 5);
      subject.Advance(absl::Seconds(1));
    }
    EXPECT_EQ(subject.Requests("stale"), seconds);
    EXPECT_EQ(subject.Refreshes("stale"), windows.revalidate / 5);
    EXPECT_EQ(subject.Ask(), subject.outcome);
  }
}

// Before the refresh that it has started, and while that is queued.
TEST_P(FreshnessTest, StaleWhileRevalidate_AfterTheValueWasInvalidated_IsNotServed) {
  for (const Way& invalidate : Ways()) {
    for (const bool refreshing : {false, true}) {
      Subject subject(GetParam(), {.ttl = absl::Seconds(10),
                                   .stale_while_revalidate = absl::InfiniteDuration(),
                                   .stale_if_error = absl::Hours(1)});
      subject.Put(1, 50, {.tags = {"shoes"}});
      subject.Advance(absl::Seconds(10));
      if (refreshing) EXPECT_EQ(subject.Ask(), 50);
      invalidate(subject);
      subject.outcome = Down();
      EXPECT_EQ(subject.Ask(), subject.outcome);
      subject.background.RunAll();
      EXPECT_EQ(subject.Ask(), subject.outcome);
      subject.outcome = absl::OkStatus();
      EXPECT_EQ(subject.Ask(), subject.Loads());
    }
  }
}

TEST_P(FreshnessTest, StaleWhileRevalidate_InfiniteWindow_ServesHoweverOldAndRefreshes) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .stale_while_revalidate = absl::InfiniteDuration()});
  subject.Put(1, 50);
  subject.Advance(absl::Hours(24 * 365 * 100));
  EXPECT_EQ(subject.Ask(), 50);
  subject.background.RunAll();
  EXPECT_EQ(subject.Ask(), 1);
  EXPECT_EQ(subject.Requests("stale"), 1);
}

// The loader of a database row returns NotModified() if the cache has the row's current value.
class NotModifiedTest : public ShapeTest {
 protected:
  void Make(LoadingCacheOptions options = {}) {
    options.ttl = absl::Seconds(10);
    subject = std::make_unique<Subject>(GetParam(), options);
    subject->load = [this](const Load& load) -> absl::StatusOr<int> {
      seen = load.previous();
      if (!subject->outcome.ok()) return subject->outcome;
      if (seen == row) return LoadTerms::NotModified();
      return row;
    };
  }

  int row = 50;
  std::optional<int> seen;  // By the last load.
  std::unique_ptr<Subject> subject;
};
INSTANTIATE_TEST_SUITE_P(Shapes, NotModifiedTest, ::testing::ValuesIn(Shapes()), NameOf);

// The options have no window, so no call gets the expired value, but the loader does.
TEST_P(NotModifiedTest, Previous_OfALoad_IsTheLastValueHoweverOld) {
  Make();
  seen = 1;
  EXPECT_EQ(subject->Ask(), 50);
  EXPECT_EQ(seen, std::nullopt);
  subject->Put(1, 40);
  for (const absl::Duration age : {absl::Seconds(10), absl::Hours(1'000)}) {
    subject->Advance(age);
    const int before = row;
    row += 10;
    EXPECT_EQ(subject->Ask(), row);
    EXPECT_EQ(seen, age == absl::Seconds(10) ? 40 : before);
  }
}

TEST_P(NotModifiedTest, Previous_InARefresh_IsTheOldValue) {
  Make({.refresh_ahead = 0.5});
  subject->Put(1, 40);
  subject->Advance(absl::Seconds(5));
  EXPECT_EQ(subject->Ask(), 40);
  subject->background.RunAll();
  EXPECT_EQ(seen, 40);
  EXPECT_EQ(subject->Ask(), 50);
}

TEST_P(NotModifiedTest, Previous_AfterInvalidation_IsNull) {
  for (const Way& invalidate : Ways()) {
    for (const absl::Duration age : {absl::Seconds(1), absl::Seconds(10)}) {
      Make();
      subject->Put(1, 50, {.tags = {"shoes"}});
      subject->Advance(age);
      seen = 1;
      invalidate(*subject);
      EXPECT_EQ(subject->Ask(), 50);
      EXPECT_EQ(seen, std::nullopt);
    }
  }
}

TEST_P(NotModifiedTest, Previous_AfterEvictionOrAnAbsence_IsNull) {
  Make({.max_weight = 1, .negative_ttl = absl::Seconds(1)});
  subject->Put(1, 50);
  subject->Put(2, 50);
  seen = 1;
  EXPECT_EQ(subject->AskAs(Asker::kGet, 1), 50);
  EXPECT_EQ(seen, std::nullopt);

  subject->Invalidate();
  subject->outcome = NoRow();
  EXPECT_EQ(subject->AskAs(Asker::kGet, 1), NoRow());
  subject->Advance(absl::Seconds(1));
  subject->outcome = absl::OkStatus();
  seen = 1;
  EXPECT_EQ(subject->AskAs(Asker::kGet, 1), 50);
  EXPECT_EQ(seen, std::nullopt);
}

TEST_P(NotModifiedTest, Previous_InANestedLoader_IsOfItsOwnKey) {
  Make();
  subject->load = [&](const Load& load) -> absl::StatusOr<int> {
    if (load.key == 1) EXPECT_EQ(subject->Ask(2), 50);
    EXPECT_EQ(load.previous(), load.key == 1 ? 40 : 50);
    return LoadTerms::NotModified();
  };
  subject->Put(1, 40);
  subject->Put(2, 50);
  subject->Advance(absl::Seconds(10));
  EXPECT_EQ(subject->Ask(), 40);
  EXPECT_EQ(subject->Loads(), 2);
}

TEST_P(NotModifiedTest, NotModified_OfAnExpiredValue_KeepsItForAnotherTtl) {
  Make();
  const Answer first = subject->Ask();
  EXPECT_EQ(first, 50);
  for (int renewal = 1; renewal <= 3; ++renewal) {
    subject->Advance(absl::Seconds(10));
    const Answer renewed = subject->Ask();
    EXPECT_EQ(renewed, 50);
    if (GetParam().boxed) EXPECT_EQ(renewed.address, first.address) << "handles, loaders and the cache share the box";
    subject->Advance(absl::Seconds(10) - kInstant);
    EXPECT_EQ(subject->Present(), 50);
    subject->Advance(kInstant);
    EXPECT_EQ(subject->Ask(), 50);
    EXPECT_EQ(subject->Loads(), 1 + 2 * renewal);
  }
  subject->AwaitNoFlights();
  // A batch that has said something of each of its keys is a success.
  const bool batch = GetParam().asker == Asker::kGetAllOfThree;
  EXPECT_EQ(subject->Ended("success"), batch ? 7 : 1);
  EXPECT_EQ(subject->Ended("not_modified"), batch ? 0 : 6);
  EXPECT_EQ(subject->Ended("error"), 0);
  EXPECT_EQ(subject->size(), 1);
  EXPECT_EQ(subject->weight(), 1);
}

TEST_P(NotModifiedTest, NotModified_WithATtlOfTheLoaders_LivesAsLong) {
  Make();
  subject->Put(1, 50);
  subject->entry.ttl = absl::Seconds(100);
  subject->Advance(absl::Seconds(10));
  EXPECT_EQ(subject->Ask(), 50);
  subject->Advance(absl::Seconds(100) - kInstant);
  EXPECT_EQ(subject->Present(), 50);
  subject->entry.ttl = absl::ZeroDuration();
  subject->Advance(kInstant);
  EXPECT_EQ(subject->Ask(), 50);  // Handed out, and not stored.
  EXPECT_EQ(subject->size(), 0);
}

TEST_P(NotModifiedTest, NotModified_InARefresh_TheNextOneIsDueLater) {
  Make({.refresh_ahead = 0.5});
  EXPECT_EQ(subject->Ask(), 50);
  for (int second = 0; second < 100; ++second) {
    EXPECT_EQ(subject->Ask(), 50);
    subject->background.RunAll();
    EXPECT_EQ(subject->Loads(), 1 + second / 5);
    subject->Advance(absl::Seconds(1));
  }
  EXPECT_EQ(subject->Ended("not_modified"), 19);  // At 5, 10, .. 95 s.
  EXPECT_EQ(subject->Requests("hit"), 100);
}

TEST_P(NotModifiedTest, NotModified_WithoutAPrevious_IsInternalAndNamesTheCache) {
  Subject unconditional(GetParam(), {.name = "unconditional", .stale_if_error = absl::Hours(1)});
  unconditional.load = [](const Load&) { return LoadTerms::NotModified(); };
  for (int loads = 1; loads <= 2; ++loads) {
    const Answer answer = unconditional.Ask();
    EXPECT_EQ(answer, "INTERNAL");
    EXPECT_NE(answer.status.message().find("unconditional"), std::string::npos) << answer.status;
    EXPECT_EQ(unconditional.Loads(), loads);
  }
  EXPECT_EQ(unconditional.size(), 0);
}

TEST_P(NotModifiedTest, NotModified_InvalidatedDuringTheLoad_OldCallersGetTheOldValueAndItIsNotStored) {
  Make();
  subject->Put(1, 50);
  subject->Advance(absl::Seconds(10));
  subject->Hold(1);
  Pending old = subject->AskLater();
  subject->AwaitLoad(1);
  subject->Invalidate();
  row = 60;
  EXPECT_EQ(subject->Ask(), 60);
  EXPECT_EQ(seen, std::nullopt);
  row = 50;
  subject->Release(1);
  EXPECT_EQ(old.get(), 50);
  EXPECT_EQ(subject->Present(), 60);
  EXPECT_EQ(subject->Loads(), 2);
}

TEST_P(NotModifiedTest, AnAbortedErrorOfTheUsers_IsAnError) {
  Make();
  subject->Put(1, 50);
  subject->Advance(absl::Seconds(10));
  subject->outcome = absl::AbortedError("not modified");
  EXPECT_EQ(subject->Ask(), subject->outcome);
  subject->AwaitNoFlights();
  EXPECT_EQ(subject->Ended("not_modified"), 0);
  EXPECT_EQ(subject->Ended("error"), 1);
}

}  // namespace
}  // namespace stockade::testing
