#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// A loader for one call.
auto Returns(int value) {
  return [=](const int&, LoadContext&) -> absl::StatusOr<int> { return value; };
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

// Only the refresh would need the loader.
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

// The cache has copied the loader, which no longer exists when the refresh runs.
TEST(GetOrLoadTest, GetOrLoad_DueForRefreshOrStale_RefreshesWithACopyOfTheCallsLoader) {
  for (const std::string trigger : {"ahead", "stale"}) {
    ManualClock clock;
    MetricsRegistry registry;
    Door door;
    IntCache cache({.ttl = absl::Seconds(10),
                    .refresh_ahead = 0.5,
                    .stale_while_revalidate = absl::Seconds(20),
                    .clock = &clock,
                    .metrics = &registry},
                   Returns(1));
    cache.Put(1, 3);
    clock.Advance(trigger == "ahead" ? absl::Seconds(5) : absl::Seconds(10));
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
    EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", trigger), 1);
  }
}

struct CopiesCounted {
  explicit CopiesCounted(int* copies) : copies(copies) {}
  CopiesCounted(const CopiesCounted& other) : copies(other.copies) { ++*copies; }
  absl::StatusOr<int> operator()(const int& key, ValueLoadContext<int>&) const { return key; }
  int* copies;
};

TEST(GetOrLoadTest, GetOrLoad_HitsWhileARefreshIsQueued_DoNotCopyTheLoader) {
  ManualClock clock;
  ManualExecutor executor;
  IntCache cache({.ttl = absl::Seconds(10),
                  .refresh_ahead = 0.5,
                  .clock = &clock,
                  .refresh_executor = &executor,
                  .metrics = nullptr});
  cache.Put(1, 1);
  clock.Advance(absl::Seconds(6));
  int copies = 0;
  const CopiesCounted loader(&copies);
  EXPECT_EQ(Text(cache.GetOrLoad(1, loader)), "1");
  EXPECT_EQ(executor.scheduled(), 1);
  EXPECT_GE(copies, 1);
  copies = 0;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Text(cache.GetOrLoad(1, loader)), "1");
  EXPECT_EQ(copies, 0);
}

}  // namespace
}  // namespace stockade::testing
