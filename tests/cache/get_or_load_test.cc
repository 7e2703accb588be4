#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// A loader of a call's own.
auto Returns(int value, std::atomic<int>* runs = nullptr) {
  return [=](const int&, LoadContext&) -> absl::StatusOr<int> {
    if (runs != nullptr) ++*runs;
    return value;
  };
}

TEST(GetOrLoadTest, GetOrLoad_MissingAndThenThere_TheCallsLoaderRunsOnce) {
  MetricsRegistry registry;
  IntCache cache(LoadingCacheOptions{.metrics = &registry});
  std::atomic<int> runs{0};
  EXPECT_EQ(Text(cache.GetOrLoad(1, Returns(5, &runs))), "5");
  EXPECT_EQ(Text(cache.GetOrLoad(1, Returns(6, &runs))), "5");
  EXPECT_EQ(Text(cache.Get(1)), "5");
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(Requests(registry, "miss"), 1);
  EXPECT_EQ(Requests(registry, "hit"), 2);
}

TEST(GetOrLoadTest, GetOrLoad_LoaderIsEmpty_IsInvalidArgumentIfItTakesALoad) {
  IntCache cache(LoadingCacheOptions{.name = "rows", .metrics = nullptr});
  const std::function<absl::StatusOr<int>(const int&, LoadContext&)> empty;
  const absl::Status refused = cache.GetOrLoad(1, empty).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(refused.message(), "LoadingCache 'rows': the loader is empty");
  EXPECT_EQ(Text(cache.GetOrLoad(1, std::function<absl::StatusOr<int>(const int&)>())), "INVALID_ARGUMENT");
  cache.Put(1, 5);
  EXPECT_EQ(Text(cache.GetOrLoad(1, empty)), "5");
}

// It takes a load only in the background.
TEST(GetOrLoadTest, GetOrLoad_LoaderIsEmptyAndARefreshIsDue_ServesTheValue) {
  ManualClock clock;
  InlineExecutor here;
  MetricsRegistry registry;
  IntCache cache(LoadingCacheOptions{.ttl = absl::Seconds(10),
                                     .refresh_ahead = 0.5,
                                     .clock = &clock,
                                     .refresh_executor = &here,
                                     .metrics = &registry});
  cache.Put(1, 5);
  clock.Advance(absl::Seconds(6));
  EXPECT_EQ(Text(cache.GetOrLoad(1, std::function<absl::StatusOr<int>(const int&)>())), "5");
  EXPECT_EQ(Metric(registry, "stockade_cache_loads_total", "error"), 0);
}

TEST(GetOrLoadTest, GetOrLoad_CacheHasALoaderToo_TheCallsOwnRuns) {
  IntCache cache({.metrics = nullptr}, Returns(1));
  EXPECT_EQ(Text(cache.GetOrLoad(7, Returns(2))), "2");
  EXPECT_EQ(Text(cache.Get(8)), "1");
}

TEST(GetOrLoadTest, GetOrLoad_OnlyABatchLoader_TheCallsOwnRuns) {
  BatchCache batch({});
  EXPECT_EQ(Text(batch.cache.GetOrLoad(7, Returns(2))), "2");
  EXPECT_TRUE(batch.batches().empty());
}

TEST(GetOrLoadTest, GetOrLoad_LoaderIsGivenTheKeyAndTerms_AndTheyCount) {
  ManualClock clock;
  IntCache cache(LoadingCacheOptions{.ttl = absl::Hours(1), .clock = &clock, .metrics = nullptr});
  const auto loader = [&](const int& key, ValueLoadContext<int>& load) -> absl::StatusOr<int> {
    EXPECT_EQ(key, 3);
    EXPECT_EQ(load.time_left(), absl::Seconds(2));
    load.set_ttl(absl::Seconds(5));
    load.AddTag("shoes");
    return load.previous() == nullptr ? 1 : *load.previous() + 1;
  };
  const CacheGetOptions options{.timeout = absl::Seconds(2)};
  EXPECT_EQ(Text(cache.GetOrLoad(3, loader, options)), "1");
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(Text(cache.GetOrLoad(3, loader, options)), "2");
  cache.InvalidateTag("shoes");
  EXPECT_EQ(Text(cache.GetOrLoad(3, loader, options)), "1");
}

TEST(GetOrLoadTest, GetOrLoad_LoaderFailsOrThrows_ItsErrorAndTheNextCallLoads) {
  IntCache cache(LoadingCacheOptions{.negative_ttl = absl::Hours(1), .metrics = nullptr});
  const auto fails = [](const int&, LoadContext&) -> absl::StatusOr<int> { return absl::AbortedError("no"); };
  const auto throws = [](const int&, LoadContext&) -> absl::StatusOr<int> { throw 1; };
  const auto absent = [](const int&, LoadContext&) -> absl::StatusOr<int> { return absl::NotFoundError("no"); };
  EXPECT_EQ(Text(cache.GetOrLoad(1, fails)), "ABORTED");
  EXPECT_EQ(Text(cache.GetOrLoad(1, throws)), "INTERNAL");
  EXPECT_EQ(Text(cache.GetOrLoad(1, absent)), "NOT_FOUND");
  EXPECT_EQ(Text(cache.GetOrLoad(1, Returns(4))), "NOT_FOUND") << "an absence is remembered";
  EXPECT_EQ(Text(cache.Get(1)), "NOT_FOUND");
}

TEST(GetOrLoadTest, Get_WhileACallsLoaderRuns_SharesItsFlight) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> runs{0};
  IntCache cache(LoadingCacheOptions{.metrics = &registry});
  std::jthread first([&] {
    EXPECT_EQ(Text(cache.GetOrLoad(1,
                                   [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                                     door.Pass();
                                     return 5;
                                   })),
              "5");
  });
  door.AwaitArrivals(1);
  std::jthread get([&] { EXPECT_EQ(Text(cache.Get(1)), "5"); });
  std::jthread second([&] { EXPECT_EQ(Text(cache.GetOrLoad(1, Returns(6, &runs))), "5"); });
  AwaitWaiters(registry, 2);
  door.Open();
  get.join();
  second.join();
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(Requests(registry, "coalesced"), 2);
}

TEST(GetOrLoadTest, GetOrLoad_WhileTheCachesLoaderRuns_SharesItsFlight) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> runs{0};
  IntCache cache({.metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return 1;
  });
  std::jthread get([&] { EXPECT_EQ(Text(cache.Get(1)), "1"); });
  door.AwaitArrivals(1);
  std::jthread own([&] { EXPECT_EQ(Text(cache.GetOrLoad(1, Returns(6, &runs))), "1"); });
  AwaitWaiters(registry, 1);
  door.Open();
  own.join();
  EXPECT_EQ(runs, 0);
}

TEST(GetOrLoadTest, Get_NoLoaderAnywhere_FailedPreconditionWhereItWouldLoad) {
  MetricsRegistry registry;
  IntCache cache(LoadingCacheOptions{.name = "bare", .metrics = &registry});
  const absl::Status refused = cache.Get(1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.ToString().find("bare"), std::string::npos);
  cache.Put(1, 3);
  EXPECT_EQ(Text(cache.Get(1)), "3");
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
}

TEST(GetOrLoadTest, Refresh_NoLoaderAnywhere_DoesNothing) {
  ManualClock clock;
  MetricsRegistry registry;
  IntCache cache(
      LoadingCacheOptions{.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = &registry});
  cache.Put(1, 3);
  cache.Refresh(1);
  cache.Refresh(2);
  clock.Advance(absl::Seconds(6));
  EXPECT_EQ(Text(cache.Get(1)), "3") << "due for a refresh that nobody can do";
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "manual"), 0);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "ahead"), 0);
}

// The call has returned by then, and what it was given is gone: the cache has its own copy.
TEST(GetOrLoadTest, GetOrLoad_HitThatIsDueForRefresh_RefreshesWithACopyOfTheCallsLoader) {
  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  IntCache cache(
      LoadingCacheOptions{.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = &registry});
  cache.Put(1, 3);
  clock.Advance(absl::Seconds(5));
  {
    const auto captured = std::make_shared<int>(42);
    const auto loader = [&door, captured](const int&, LoadContext&) -> absl::StatusOr<int> {
      door.Pass();
      return *captured;
    };
    EXPECT_EQ(Text(cache.GetOrLoad(1, loader)), "3");
  }
  door.AwaitArrivals(1);
  door.Open();
  SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
  EXPECT_EQ(Text(cache.Get(1)), "42");
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "ahead"), 1);
}

TEST(GetOrLoadTest, GetOrLoad_CallerLeavesOnALoadExecutor_ItsLoaderRunsForTheOthers) {
  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  ThreadPool pool(1);
  IntCache cache(LoadingCacheOptions{.clock = &clock, .load_executor = &pool, .metrics = &registry});
  const auto loader = [&door](const int&, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return 5;
  };
  std::jthread hasty(
      [&] { EXPECT_EQ(Text(cache.GetOrLoad(1, loader, {.timeout = absl::Seconds(1)})), "DEADLINE_EXCEEDED"); });
  door.AwaitArrivals(1);
  std::jthread patient([&] { EXPECT_EQ(Text(cache.Get(1)), "5"); });
  AwaitWaiters(registry, 2);
  clock.Advance(absl::Seconds(1));
  hasty.join();
  door.Open();
}

TEST(GetOrLoadTest, GetOrLoad_LoaderAsksForItsOwnKey_FailedPrecondition) {
  IntCache cache(LoadingCacheOptions{.metrics = nullptr});
  const auto loader = [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    const IntAnswer own = cache.GetOrLoad(key, Returns(1));
    const IntAnswer other = cache.GetOrLoad(key + 1, Returns(2));
    EXPECT_EQ(Text(own), "FAILED_PRECONDITION");
    return **other;
  };
  EXPECT_EQ(Text(cache.GetOrLoad(1, loader)), "2");
}

}  // namespace
}  // namespace stockade::testing
