#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// Load n stops at its door and returns n, or what `outcome` says.
struct RefreshedCache {
  explicit RefreshedCache(LoadingCacheOptions options = {})
      : cache(With(std::move(options), this), [this](const int&, LoadContext&) -> absl::StatusOr<int> {
          const int mine = ++loads;
          doors[mine].Pass();
          if (!outcome.ok()) return outcome;
          return mine;
        }) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, RefreshedCache* self) {
    options.clock = &self->clock;
    options.metrics = &self->registry;
    return options;
  }

  double Refreshes() const { return Metric(registry, "stockade_cache_refreshes_total", "manual"); }
  void AwaitNoFlights() {
    SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
  }

  ManualClock clock;
  MetricsRegistry registry;
  Door doors[8];
  std::atomic<int> loads{0};
  absl::Status outcome;
  IntCache cache;
};

TEST(RefreshTest, Refresh_AFreshValue_IsServedUntilTheLoadHasEnded) {
  RefreshedCache refreshed;
  refreshed.cache.Put(1, 50);
  refreshed.cache.Refresh(1);
  refreshed.doors[1].AwaitArrivals(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(**refreshed.cache.Get(1), 50);
  EXPECT_EQ(**refreshed.cache.GetIfPresent(1), 50);
  EXPECT_EQ(Requests(refreshed.registry, "hit"), 11);
  refreshed.doors[1].Open();
  refreshed.AwaitNoFlights();
  EXPECT_EQ(**refreshed.cache.Get(1), 1);
  EXPECT_EQ(refreshed.Refreshes(), 1);
  EXPECT_EQ(Metric(refreshed.registry, "stockade_cache_refreshes_total", "ahead"), 0);
}

TEST(RefreshTest, Refresh_ItsKeyIsBeingLoaded_BeginsNoOther) {
  RefreshedCache refreshed;
  std::jthread leader([&] { EXPECT_EQ(**refreshed.cache.Get(1), 1); });
  refreshed.doors[1].AwaitArrivals(1);
  for (int i = 0; i < 10; ++i) refreshed.cache.Refresh(1);
  refreshed.doors[1].Open();
  leader.join();
  refreshed.AwaitNoFlights();
  EXPECT_EQ(refreshed.loads, 1);
  EXPECT_EQ(refreshed.Refreshes(), 0);
}

TEST(RefreshTest, Refresh_ByManyAtOnce_LoadsOnce) {
  RefreshedCache refreshed;
  refreshed.cache.Put(1, 50);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 50; ++n) refreshed.cache.Refresh(1);
      });
    }
  }
  refreshed.doors[1].AwaitArrivals(1);
  refreshed.doors[1].Open();
  refreshed.AwaitNoFlights();
  EXPECT_EQ(refreshed.loads, 1);
  EXPECT_EQ(refreshed.Refreshes(), 1);
}

TEST(RefreshTest, Refresh_AColdKey_LoadsItAndACallJoins) {
  RefreshedCache refreshed;
  refreshed.cache.Refresh(1);
  refreshed.doors[1].AwaitArrivals(1);
  EXPECT_FALSE(refreshed.cache.GetIfPresent(1).has_value());
  std::jthread waiter([&] { EXPECT_EQ(**refreshed.cache.Get(1), 1); });
  AwaitWaiters(refreshed.registry, 1);
  refreshed.doors[1].Open();
  waiter.join();
  EXPECT_EQ(**refreshed.cache.GetIfPresent(1), 1);
  EXPECT_EQ(refreshed.loads, 1);
}

TEST(RefreshTest, Refresh_Fails_TheOldValueStaysForItsTime) {
  ManualExecutor executor;
  RefreshedCache refreshed({.ttl = absl::Seconds(10), .refresh_executor = &executor});
  refreshed.cache.Put(1, 50);
  refreshed.clock.Advance(absl::Seconds(5));
  refreshed.outcome = absl::UnavailableError("down");
  for (Door& door : refreshed.doors) door.Open();
  refreshed.cache.Refresh(1);
  executor.RunAll();
  EXPECT_EQ(refreshed.loads, 1);
  refreshed.clock.Advance(absl::Seconds(5) - absl::Nanoseconds(1));
  EXPECT_EQ(**refreshed.cache.Get(1), 50);
  refreshed.clock.Advance(absl::Nanoseconds(1));  // The failure has not made it live longer.
  EXPECT_EQ(refreshed.cache.Get(1).status(), refreshed.outcome);
}

TEST(RefreshTest, Refresh_ColdAndFails_TheNextCallLoadsAnew) {
  ManualExecutor executor;
  RefreshedCache refreshed({.refresh_executor = &executor});
  for (Door& door : refreshed.doors) door.Open();
  refreshed.outcome = absl::UnavailableError("down");
  refreshed.cache.Refresh(1);
  executor.RunAll();
  EXPECT_EQ(refreshed.cache.size(), 0);
  refreshed.outcome = absl::OkStatus();
  EXPECT_EQ(**refreshed.cache.Get(1), 2);
}

TEST(RefreshTest, Refresh_AnAbsence_LoadsAlthoughItIsRemembered) {
  ManualExecutor executor;
  RefreshedCache refreshed({.negative_ttl = absl::Hours(1), .refresh_executor = &executor});
  for (Door& door : refreshed.doors) door.Open();
  refreshed.outcome = absl::NotFoundError("no row");
  EXPECT_EQ(refreshed.cache.Get(1).status(), refreshed.outcome);
  refreshed.cache.Refresh(1);
  EXPECT_EQ(refreshed.cache.Get(1).status(), absl::NotFoundError("no row"));  // Served meanwhile.
  refreshed.outcome = absl::OkStatus();
  executor.RunAll();
  EXPECT_EQ(**refreshed.cache.Get(1), 2);
}

// By key, with all others, and before it has begun.
TEST(RefreshTest, Invalidate_DuringTheRefresh_ItsResultIsNotStored) {
  for (const bool all : {false, true}) {
    RefreshedCache refreshed;
    refreshed.cache.Put(1, 50);
    refreshed.cache.Refresh(1);
    refreshed.doors[1].AwaitArrivals(1);
    all ? refreshed.cache.InvalidateAll() : refreshed.cache.Invalidate(1);
    refreshed.doors[1].Open();
    refreshed.AwaitNoFlights();
    EXPECT_EQ(refreshed.cache.size(), 0);
    refreshed.doors[2].Open();
    EXPECT_EQ(**refreshed.cache.Get(1), 2);
  }
}

TEST(RefreshTest, Invalidate_BeforeTheRefreshBegins_ItsResultIsStored) {
  ManualExecutor executor;
  RefreshedCache refreshed({.refresh_executor = &executor});
  refreshed.cache.Put(1, 50);
  refreshed.cache.Refresh(1);
  refreshed.cache.Invalidate(1);
  refreshed.doors[1].Open();
  executor.RunAll();
  EXPECT_EQ(**refreshed.cache.GetIfPresent(1), 1);
}

TEST(RefreshTest, Refresh_AfterAnInvalidationDuringAnother_LoadsTheNewValue) {
  RefreshedCache refreshed;
  refreshed.cache.Refresh(1);
  refreshed.doors[1].AwaitArrivals(1);
  refreshed.cache.Invalidate(1);
  refreshed.cache.Refresh(1);
  refreshed.doors[2].AwaitArrivals(1);
  refreshed.doors[2].Open();
  SpinUntil([&] { return refreshed.cache.size() == 1; });
  refreshed.doors[1].Open();
  refreshed.AwaitNoFlights();
  EXPECT_EQ(**refreshed.cache.GetIfPresent(1), 2);
  EXPECT_EQ(refreshed.Refreshes(), 2);
}

TEST(RefreshTest, Put_DuringTheRefresh_Wins) {
  RefreshedCache refreshed;
  refreshed.cache.Put(1, 50);
  refreshed.cache.Refresh(1);
  refreshed.doors[1].AwaitArrivals(1);
  refreshed.cache.Put(1, 60);
  refreshed.doors[1].Open();
  refreshed.AwaitNoFlights();
  EXPECT_EQ(**refreshed.cache.Get(1), 60);
}

TEST(RefreshTest, Refresh_WithoutALoader_DoesNothing) {
  MetricsRegistry registry;
  IntCache cache({.metrics = &registry});
  cache.Put(1, 50);
  cache.Refresh(1);
  cache.Refresh(2);
  EXPECT_EQ(**cache.Get(1), 50);
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
}

// No call waits for it, so that the log alone can say it.
TEST(RefreshTest, Refresh_LoaderThrows_IsLogged) {
  std::string log;  // The sink is called by one thread at a time, and not after it has been replaced.
  SetLogSink([&](LogSeverity, std::string_view message) { log += std::string(message) + "\n"; });
  for (const bool batch : {false, true}) {
    ManualExecutor executor;
    IntCache::Callbacks callbacks;
    if (batch) {
      callbacks.load_all = [](const std::vector<int>&, IntBatch&) -> absl::Status { throw std::runtime_error("lost"); };
    } else {
      callbacks.load = [](const int&, LoadContext&) -> absl::StatusOr<int> { throw std::runtime_error("gone"); };
    }
    IntCache cache({.name = "r", .refresh_executor = &executor, .metrics = nullptr}, callbacks);
    // The log leaves out what is too much a second, of other tests too.
    const std::string thrown = std::string("the loader of LoadingCache 'r' threw: ") + (batch ? "lost" : "gone");
    SpinUntil([&] {
      cache.Refresh(1);
      executor.RunAll();
      return log.find(thrown + "; a refresh fails\n") != log.npos;
    });
  }
  SetLogSink({});
}

}  // namespace
}  // namespace stockade::testing
