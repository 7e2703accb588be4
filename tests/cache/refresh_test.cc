#include <gtest/gtest.h>

#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

TEST(RefreshAheadTest, Get_PastTheShare_HitsOnAndLoadsOnceInTheBackground) {
  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.ttl = absl::Seconds(10), .refresh_ahead = 0.8, .clock = &clock, .metrics = &registry},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   ++loads;
                   door.Pass();
                   return 2;
                 });
  cache.Put(1, 1);
  clock.Advance(absl::Seconds(8) - absl::Nanoseconds(1));
  EXPECT_EQ(**cache.Get(1), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total"), 0);
  clock.Advance(absl::Nanoseconds(1));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(**cache.Get(1), 1);
  door.AwaitArrivals(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(**cache.Get(1), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total"), 1);
  EXPECT_EQ(Requests(registry, "hit"), 21);
  door.Open();
  SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
  EXPECT_EQ(**cache.Get(1), 2);
  EXPECT_EQ(loads, 1);
}

TEST(RefreshAheadTest, Get_ValueExpiresDuringTheRefresh_JoinsIt) {
  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = &registry},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   ++loads;
                   door.Pass();
                   return 2;
                 });
  cache.Put(1, 1);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(**cache.Get(1), 1);
  door.AwaitArrivals(1);
  clock.Advance(absl::Seconds(5));
  std::jthread waiter([&] { EXPECT_EQ(**cache.Get(1), 2); });
  AwaitWaiters(registry, 1);
  door.Open();
  waiter.join();
  EXPECT_EQ(loads, 1);
}

// The refresh is queued behind a task that does not end; a call that needs the value does not wait for the queue.
TEST(RefreshAheadTest, Get_RefreshIsStuckInAFullExecutor_TheCallRunsItItself) {
  ManualClock clock;
  Door door;
  std::atomic<int> loads{0};
  ThreadPool pool(1);
  ThreadPool load_pool(1);
  for (Executor* const load_executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&load_pool)}) {
    IntCache cache({.ttl = absl::Seconds(10),
                    .refresh_ahead = 0.5,
                    .clock = &clock,
                    .load_executor = load_executor,
                    .refresh_executor = &pool,
                    .metrics = nullptr},
                   [&](const int&, LoadContext&) -> absl::StatusOr<int> { return ++loads; });
    pool.Schedule([&] { door.Pass(); });
    cache.Put(1, 50);
    clock.Advance(absl::Seconds(5));
    EXPECT_EQ(**cache.Get(1), 50);
    clock.Advance(absl::Seconds(5));
    const int before = loads;
    EXPECT_EQ(**cache.Get(1), before + 1);
  }
  door.Open();  // The queued tasks come up after their caches are gone.
  EXPECT_EQ(loads, 2);
}

TEST(RefreshAheadTest, Get_RefreshFails_OneTryPerBackoffAndTheValueStays) {
  ManualClock clock;
  InlineExecutor executor;
  int loads = 0;
  IntCache cache({.ttl = absl::Seconds(100),
                  .refresh_ahead = 0.5,
                  .retry_backoff = absl::Seconds(10),
                  .clock = &clock,
                  .refresh_executor = &executor,
                  .metrics = nullptr},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   ++loads;
                   return absl::UnavailableError("down");
                 });
  cache.Put(1, 50);
  clock.Advance(absl::Seconds(50));
  for (int second = 0; second < 50; ++second) {
    EXPECT_EQ(**cache.Get(1), 50);
    clock.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(loads, 5);
  EXPECT_EQ(cache.Get(1).status().code(), absl::StatusCode::kUnavailable);
}

TEST(RefreshAheadTest, Get_RefreshFindsTheKeyGone_TheValueGoes) {
  ManualClock clock;
  InlineExecutor executor;
  IntCache cache({.ttl = absl::Seconds(100),
                  .refresh_ahead = 0.5,
                  .clock = &clock,
                  .refresh_executor = &executor,
                  .metrics = nullptr},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> { return absl::NotFoundError("no row"); });
  cache.Put(1, 50);
  clock.Advance(absl::Seconds(50));
  EXPECT_EQ(**cache.Get(1), 50);
  EXPECT_EQ(cache.size(), 0);
}

}  // namespace
}  // namespace stockade::testing
