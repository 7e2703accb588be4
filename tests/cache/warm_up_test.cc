#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

using Batches = std::vector<std::vector<int>>;

std::vector<int> FirstKeys(int count) {
  std::vector<int> keys(count);
  std::iota(keys.begin(), keys.end(), 0);
  return keys;
}

std::string Summary(const absl::StatusOr<WarmUpReport>& report) {
  if (!report.ok()) return absl::StatusCodeToString(report.status().code());
  return std::to_string(report->present) + " " + std::to_string(report->not_found) + " " +
         std::to_string(report->failed) + " " + absl::StatusCodeToString(report->first_error.code());
}

TEST(WarmUpTest, WarmUp_SomeAreMissing_LoadsThoseAndCountsEachKeyOnce) {
  MetricsRegistry registry;
  std::atomic<int> loads{0};
  IntCache cache({.negative_ttl = absl::Hours(1), .metrics = &registry},
                 [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   ++loads;
                   if (key == 3) return absl::NotFoundError("");
                   if (key == 4) return absl::UnavailableError("");
                   return key;
                 });
  cache.Put(1, 10);
  EXPECT_EQ(Summary(cache.WarmUp({1, 2, 3, 4, 2, 1})), "2 1 1 UNAVAILABLE");
  EXPECT_EQ(loads, 3);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "warm_up"), 3);
  for (const char* const result : {"hit", "stale", "miss", "coalesced", "negative"}) {
    EXPECT_EQ(Requests(registry, result), 0) << result;
  }
  EXPECT_EQ(Summary(cache.WarmUp({1, 2, 3, 4})), "2 1 1 UNAVAILABLE");
  EXPECT_EQ(loads, 4) << "an absence is remembered, an error is not";
  EXPECT_EQ(Metric(registry, "stockade_cache_entries"), 3);
}

TEST(WarmUpTest, WarmUp_NoKeys_NothingIsDone) {
  IntCache cache(LoadingCacheOptions{.metrics = nullptr});
  EXPECT_EQ(Summary(cache.WarmUp({})), "0 0 0 OK");
}

TEST(WarmUpTest, WarmUp_NoLoader_EachMissingKeyFails) {
  IntCache cache(LoadingCacheOptions{.metrics = nullptr});
  cache.Put(1, 1);
  EXPECT_EQ(Summary(cache.WarmUp({1, 2})), "1 0 1 FAILED_PRECONDITION");
}

TEST(WarmUpTest, WarmUp_OptionsAreBad_InvalidArgumentNamingTheField) {
  IntCache cache({.metrics = nullptr}, [](const int&, LoadContext&) -> absl::StatusOr<int> { return 1; });
  const absl::Status parallelism = cache.WarmUp({1}, {.parallelism = 0}).status();
  EXPECT_EQ(parallelism.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(parallelism.ToString().find("parallelism"), std::string::npos);
  const absl::Status batch_size = cache.WarmUp({1}, {.batch_size = 0}).status();
  EXPECT_EQ(batch_size.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(batch_size.ToString().find("batch_size"), std::string::npos);
  EXPECT_EQ(cache.size(), 0);
}

// No more than that at once, and no fewer: the first three stand at a door that only three open.
TEST(WarmUpTest, WarmUp_Parallelism_IsReachedAndNeverPassed) {
  std::atomic<int> running{0}, most{0};
  Door door;
  const std::thread::id self = std::this_thread::get_id();
  IntCache cache({.metrics = nullptr}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    EXPECT_NE(std::this_thread::get_id(), self);
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    door.Pass();
    std::this_thread::yield();
    --running;
    return key;
  });
  std::jthread opener([&] {
    door.AwaitArrivals(3);
    door.Open();
  });
  EXPECT_EQ(Summary(cache.WarmUp(FirstKeys(200), {.parallelism = 3})), "200 0 0 OK");
  EXPECT_EQ(most, 3);
  EXPECT_EQ(cache.size(), 200);
}

TEST(WarmUpTest, WarmUp_ABatchLoader_GetsBatchesOfTheGivenSize) {
  BatchCache batch({});
  batch.cache.Put(2, 20);
  EXPECT_EQ(Summary(batch.cache.WarmUp({0, 1, 2, 3, 4, 5, 6, 6}, {.parallelism = 1, .batch_size = 3})), "7 0 0 OK");
  EXPECT_EQ(batch.batches(), (Batches{{0, 1}, {3, 4, 5}, {6}}));
  EXPECT_EQ(Metric(batch.registry, "stockade_cache_refreshes_total", "warm_up"), 6);
  EXPECT_EQ(Metric(batch.registry, "stockade_cache_loads_total", "success"), 3);
}

TEST(WarmUpTest, WarmUp_BatchesInParallel_IsReachedAndNeverPassed) {
  std::atomic<int> running{0}, most{0};
  Door door;
  BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
    EXPECT_LE(keys.size(), 10u);
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    door.Pass();
    --running;
    return AddTenfold(keys, found);
  });
  std::jthread opener([&] {
    door.AwaitArrivals(2);
    door.Open();
  });
  EXPECT_EQ(Summary(batch.cache.WarmUp(FirstKeys(95), {.parallelism = 2, .batch_size = 10})), "95 0 0 OK");
  EXPECT_EQ(most, 2);
  EXPECT_EQ(batch.batches().size(), 10u);
}

TEST(WarmUpTest, WarmUp_BatchFailsForSome_TheReportSaysSo) {
  BatchCache batch({}, [](const std::vector<int>&, IntBatch& found) {
    found.Add(0, 1);
    found.Fail(1, absl::AbortedError(""));
    return absl::OkStatus();
  });
  EXPECT_EQ(Summary(batch.cache.WarmUp({0, 1, 2, 3})), "1 2 1 ABORTED");
}

TEST(WarmUpTest, WarmUp_KeyIsBeingLoaded_SharesTheLoad) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return ++loads;
  });
  std::jthread get([&] { EXPECT_TRUE(cache.Get(1).ok()); });
  door.AwaitArrivals(1);
  std::jthread warm([&] { EXPECT_EQ(Summary(cache.WarmUp({1, 2})), "2 0 0 OK"); });
  AwaitWaiters(registry, 1);
  std::jthread late([&] { EXPECT_TRUE(cache.Get(2).ok()); });
  door.AwaitArrivals(2);
  AwaitWaiters(registry, 2);
  door.Open();
  get.join();
  warm.join();
  late.join();
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "warm_up") + Requests(registry, "miss"), 2);
}

// The first begins in time; what has not begun by the time-out never does.
TEST(WarmUpTest, WarmUp_TimeoutPasses_TheRestIsDeadlineExceeded) {
  ManualClock clock;
  std::atomic<int> loads{0};
  IntCache cache({.clock = &clock, .metrics = nullptr}, [&](const int& key, LoadContext& load) -> absl::StatusOr<int> {
    EXPECT_EQ(load.time_left(), absl::Seconds(1));
    ++loads;
    clock.Advance(absl::Seconds(1));
    return key;
  });
  EXPECT_EQ(Summary(cache.WarmUp(FirstKeys(5), {.parallelism = 1, .timeout = absl::Seconds(1)})),
            "1 0 4 DEADLINE_EXCEEDED");
  EXPECT_EQ(loads, 1);
}

TEST(WarmUpTest, Loader_WarmsUp_FailedPrecondition) {
  IntCache* self = nullptr;
  std::string refused;
  IntCache cache({.metrics = nullptr}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    refused = Summary(self->WarmUp({key + 1}));
    return key;
  });
  self = &cache;
  EXPECT_TRUE(cache.Get(1).ok());
  EXPECT_EQ(refused, "FAILED_PRECONDITION");
  EXPECT_FALSE(cache.GetIfPresent(2).has_value());
}

TEST(WarmUpTest, WarmUp_WithALoadExecutor_LoadsThereAndStaysWithinItsParallelism) {
  std::atomic<int> running{0}, most{0};
  ThreadPool pool(4);
  IntCache cache({.load_executor = &pool, .metrics = nullptr},
                 [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   const int now = ++running;
                   for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
                   }
                   std::this_thread::yield();
                   --running;
                   return key;
                 });
  EXPECT_EQ(Summary(cache.WarmUp(FirstKeys(200), {.parallelism = 2})), "200 0 0 OK");
  EXPECT_LE(most, 2);
}

TEST(WarmUpTest, WarmUp_Strict_Works) {
  BatchCache batch({.strict = true});
  EXPECT_EQ(Summary(batch.cache.WarmUp(FirstKeys(20), {.batch_size = 5})), "20 0 0 OK");
}

TEST(WarmUpTest, Destructor_DuringAWarmUp_TheRestFailsAndTheLoadersAreAwaited) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  // So small that it has one shard, which closes at one instant.
  auto cache = std::make_unique<IntCache>(LoadingCacheOptions{.max_weight = 60, .metrics = &registry},
                                          [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                                            door.Pass();
                                            ++loads;
                                            return key;
                                          });
  IntCache* const raw = cache.get();
  std::jthread warm([raw] { EXPECT_EQ(Summary(raw->WarmUp(FirstKeys(50), {.parallelism = 2})), "0 0 50 CANCELLED"); });
  door.AwaitArrivals(2);
  std::jthread waiter([raw] { EXPECT_EQ(Text(raw->Get(0)), "CANCELLED"); });
  AwaitWaiters(registry, 1);
  std::jthread destroyer([&] {
    cache.reset();
    EXPECT_EQ(loads, 2);
  });
  waiter.join();
  door.Open();
}

}  // namespace
}  // namespace stockade::testing
