#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// The counts of all results: exclusive of each other if each call raises exactly one of them by one.
std::map<std::string, int> AllRequests(const MetricsRegistry& registry) {
  std::map<std::string, int> counts;
  for (const char* result : {"hit", "stale", "miss", "coalesced", "negative"}) {
    if (const int count = static_cast<int>(Requests(registry, result)); count != 0) counts[result] = count;
  }
  return counts;
}

using Counts = std::map<std::string, int>;

TEST(CacheMetricsTest, Requests_EachCall_CountsAsExactlyOneResult) {
  ManualClock clock;
  MetricsRegistry registry;
  absl::Status outcome;
  IntCache cache({.ttl = absl::Seconds(10),
                  .negative_ttl = absl::Seconds(10),
                  .stale_if_error = absl::Seconds(10),
                  .clock = &clock,
                  .metrics = &registry},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   if (!outcome.ok()) return outcome;
                   return 1;
                 });
  (void)cache.GetIfPresent(1);
  EXPECT_EQ(AllRequests(registry), (Counts{{"miss", 1}}));
  (void)cache.Get(1);
  EXPECT_EQ(AllRequests(registry), (Counts{{"miss", 2}}));
  (void)cache.Get(1);
  (void)cache.GetIfPresent(1);
  EXPECT_EQ(AllRequests(registry), (Counts{{"miss", 2}, {"hit", 2}}));
  clock.Advance(absl::Seconds(10));
  outcome = absl::UnavailableError("down");
  (void)cache.Get(1);  // The load fails: the old value.
  (void)cache.Get(1);  // Within the back-off.
  EXPECT_EQ(AllRequests(registry), (Counts{{"miss", 2}, {"hit", 2}, {"stale", 2}}));
  (void)cache.Get(2);
  EXPECT_EQ(AllRequests(registry), (Counts{{"miss", 3}, {"hit", 2}, {"stale", 2}}));
  outcome = absl::NotFoundError("no row");
  (void)cache.Get(3);
  (void)cache.Get(3);
  (void)cache.GetIfPresent(3);
  EXPECT_EQ(AllRequests(registry), (Counts{{"miss", 4}, {"hit", 2}, {"stale", 2}, {"negative", 2}}));

  EXPECT_EQ(Metric(registry, "stockade_cache_loads_total", "success"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_loads_total", "error"), 2);
  EXPECT_EQ(Metric(registry, "stockade_cache_loads_total", "not_found"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_load_seconds"), 4);
  EXPECT_EQ(Metric(registry, "stockade_cache_wait_seconds"), 0);
}

TEST(CacheMetricsTest, Gauges_DuringALoad_CountTheFlightAndItsWaiter) {
  MetricsRegistry registry;
  Door door;
  IntCache cache({.metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return 1;
  });
  std::jthread leader([&] { (void)cache.Get(1); });
  door.AwaitArrivals(1);
  std::jthread waiter([&] { (void)cache.Get(1); });
  AwaitWaiters(registry, 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_entries"), 0);
  door.Open();
  leader.join();
  waiter.join();
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
  EXPECT_EQ(Metric(registry, "stockade_cache_waiters"), 0);
  EXPECT_EQ(Metric(registry, "stockade_cache_entries"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_weight"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_wait_seconds"), 1);
  EXPECT_EQ(AllRequests(registry), (Counts{{"miss", 1}, {"coalesced", 1}}));
}

TEST(CacheMetricsTest, Evictions_ByCause) {
  ManualClock clock;
  MetricsRegistry registry;
  IntCache cache({.max_weight = 3, .ttl = absl::Seconds(10), .clock = &clock, .metrics = &registry},
                 [](const int& key, LoadContext&) -> absl::StatusOr<int> { return key; });
  const auto evictions = [&](const char* cause) { return Metric(registry, "stockade_cache_evictions_total", cause); };
  for (int key = 0; key < 5; ++key) cache.Put(key, key);
  cache.Put(4, 44);  // A replacement is no eviction.
  EXPECT_EQ(evictions("size"), 2);
  cache.Invalidate(4);
  cache.Invalidate(4);
  EXPECT_EQ(evictions("invalidated"), 1);
  clock.Advance(absl::Seconds(10));
  (void)cache.GetIfPresent(0);  // In the main queue, unlike 2 and 3.
  EXPECT_EQ(evictions("expired"), 1);
  cache.InvalidateAll();
  EXPECT_EQ(evictions("invalidated"), 2);
  EXPECT_EQ(evictions("size"), 2);
  EXPECT_EQ(cache.size(), 0);
}

TEST(CacheMetricsTest, Series_CarryTheCachesName) {
  MetricsRegistry registry;
  IntCache cache({.name = "products", .metrics = &registry},
                 [](const int&, LoadContext&) -> absl::StatusOr<int> { return 1; });
  int series = 0;
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    EXPECT_EQ(family.name.rfind("stockade_cache_", 0), 0u) << family.name;
    EXPECT_FALSE(family.help.empty());
    for (const prometheus::ClientMetric& metric : family.metric) {
      ++series;
      int named = 0;
      for (const auto& label : metric.label) named += label.name == "cache" && label.value == "products";
      EXPECT_EQ(named, 1) << family.name;
    }
  }
  EXPECT_EQ(series, 26);
}

}  // namespace
}  // namespace stockade::testing
