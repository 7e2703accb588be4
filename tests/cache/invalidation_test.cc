#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// A cache whose loads stop at a door each, in the order in which they begin; load n returns n.
struct SteppedCache {
  explicit SteppedCache(LoadingCacheOptions options = {})
      : cache(With(std::move(options), &registry), [this](const int&, LoadContext&) -> absl::StatusOr<int> {
          const int mine = ++begun;
          running.fetch_add(1);
          EXPECT_LE(running, 2);
          doors[mine].Pass();
          running.fetch_sub(1);
          return mine;
        }) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, MetricsRegistry* registry) {
    options.metrics = registry;
    return options;
  }

  // A call on a thread of its own, whose answer is to be `wanted`.
  std::jthread Expect(int wanted) {
    return std::jthread([this, wanted] { EXPECT_EQ(**cache.Get(1), wanted); });
  }

  MetricsRegistry registry;
  Door doors[8];
  std::atomic<int> begun{0};
  std::atomic<int> running{0};
  IntCache cache;
};

class InvalidationTest : public ::testing::TestWithParam<bool> {
 protected:
  static void Invalidate(IntCache& cache) { GetParam() ? cache.InvalidateAll() : cache.Invalidate(1); }
};

INSTANTIATE_TEST_SUITE_P(KeyOrAll, InvalidationTest, ::testing::Bool());

TEST_P(InvalidationTest, Invalidate_DuringALoad_OldCallersGetItsResultAndLaterOnesDoNot) {
  SteppedCache stepped;
  std::jthread leader = stepped.Expect(1);
  stepped.doors[1].AwaitArrivals(1);
  std::jthread waiter = stepped.Expect(1);
  AwaitWaiters(stepped.registry, 1);
  Invalidate(stepped.cache);
  std::jthread later = stepped.Expect(2);
  stepped.doors[2].AwaitArrivals(1);
  stepped.doors[1].Open();
  leader.join();
  waiter.join();
  EXPECT_FALSE(stepped.cache.GetIfPresent(1).has_value());
  stepped.doors[2].Open();
  later.join();
  EXPECT_EQ(**stepped.cache.GetIfPresent(1), 2);
}

TEST_P(InvalidationTest, Invalidate_DetachedLoadEndsLast_DoesNotReplaceTheNewerValue) {
  SteppedCache stepped;
  std::jthread old = stepped.Expect(1);
  stepped.doors[1].AwaitArrivals(1);
  Invalidate(stepped.cache);
  stepped.doors[2].Open();
  EXPECT_EQ(**stepped.cache.Get(1), 2);
  stepped.doors[1].Open();
  old.join();
  EXPECT_EQ(**stepped.cache.GetIfPresent(1), 2);
}

TEST_P(InvalidationTest, Invalidate_StoredValue_IsGone) {
  SteppedCache stepped;
  stepped.cache.Put(1, 50);
  Invalidate(stepped.cache);
  EXPECT_FALSE(stepped.cache.GetIfPresent(1).has_value());
  EXPECT_EQ(stepped.cache.size(), 0);
  EXPECT_EQ(stepped.cache.weight(), 0);
}

// With and without an executor: who starts the load that had to wait for its turn differs.
TEST_P(InvalidationTest, Invalidate_AStorm_NeverMoreThanTwoLoadsAndLaterCallsShareTheNext) {
  ThreadPool pool(4);
  for (Executor* const executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    SteppedCache stepped({.load_executor = executor});
    std::jthread first = stepped.Expect(1);
    stepped.doors[1].AwaitArrivals(1);
    Invalidate(stepped.cache);
    std::jthread second = stepped.Expect(2);
    stepped.doors[2].AwaitArrivals(1);
    std::vector<std::jthread> later;
    const int parked = executor == nullptr ? 0 : 2;  // The first two wait for the pool's threads.
    for (int i = 0; i < 10; ++i) {
      Invalidate(stepped.cache);
      later.push_back(stepped.Expect(3));
      AwaitWaiters(stepped.registry, parked + i + 1);
    }
    EXPECT_EQ(stepped.begun, 2);
    stepped.doors[2].Open();
    second.join();
    stepped.doors[3].AwaitArrivals(1);
    stepped.doors[3].Open();
    later.clear();
    EXPECT_EQ(**stepped.cache.GetIfPresent(1), 3);
    stepped.doors[1].Open();
    first.join();
    EXPECT_EQ(**stepped.cache.GetIfPresent(1), 3);
    EXPECT_EQ(stepped.begun, 3);
  }
}

TEST_P(InvalidationTest, Invalidate_LoadThatNobodyWaitsForAnyMore_NeverStarts) {
  ManualClock clock;
  SteppedCache stepped({.clock = &clock});
  std::jthread first = stepped.Expect(1);
  stepped.doors[1].AwaitArrivals(1);
  Invalidate(stepped.cache);
  std::jthread second = stepped.Expect(2);
  stepped.doors[2].AwaitArrivals(1);
  Invalidate(stepped.cache);
  std::jthread impatient([&] {
    EXPECT_EQ(stepped.cache.Get(1, {.timeout = absl::Seconds(1)}).status().code(), absl::StatusCode::kDeadlineExceeded);
  });
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(1));
  impatient.join();
  EXPECT_EQ(Metric(stepped.registry, "stockade_cache_flights"), 2);
  stepped.doors[1].Open();
  stepped.doors[2].Open();
  first.join();
  second.join();
  EXPECT_EQ(stepped.begun, 2);
  EXPECT_EQ(stepped.cache.size(), 0);
}

TEST_P(InvalidationTest, Invalidate_DuringARefresh_ItsResultIsNotStored) {
  ManualClock clock;
  SteppedCache stepped({.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock});
  stepped.cache.Put(1, 50);
  clock.Advance(absl::Seconds(6));
  EXPECT_EQ(**stepped.cache.Get(1), 50);
  stepped.doors[1].AwaitArrivals(1);
  Invalidate(stepped.cache);
  stepped.doors[1].Open();
  SpinUntil([&] { return Metric(stepped.registry, "stockade_cache_flights") == 0; });
  EXPECT_FALSE(stepped.cache.GetIfPresent(1).has_value());
}

TEST(PutTest, Put_DuringALoad_WinsAndAnswersTheWaiters) {
  SteppedCache stepped;
  std::jthread leader = stepped.Expect(50);
  stepped.doors[1].AwaitArrivals(1);
  std::jthread waiter = stepped.Expect(50);
  AwaitWaiters(stepped.registry, 1);
  stepped.cache.Put(1, 50);
  waiter.join();  // Before the loader has ended.
  EXPECT_EQ(**stepped.cache.Get(1), 50);
  stepped.doors[1].Open();
  leader.join();
  EXPECT_EQ(**stepped.cache.GetIfPresent(1), 50);
  EXPECT_EQ(stepped.begun, 1);
}

TEST(PutTest, Put_ByTheLoaderOfTheKey_Wins) {
  IntCache* self = nullptr;
  IntCache cache({.metrics = nullptr}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    self->Put(key, 7);
    return 1;
  });
  self = &cache;
  EXPECT_EQ(**cache.Get(1), 7);
  EXPECT_EQ(**cache.GetIfPresent(1), 7);
}

TEST(PutTest, Put_WhileALoadWaitsForItsTurn_AnswersItWithoutALoad) {
  SteppedCache stepped;
  std::jthread first = stepped.Expect(1);
  stepped.doors[1].AwaitArrivals(1);
  stepped.cache.Invalidate(1);
  std::jthread second = stepped.Expect(2);
  stepped.doors[2].AwaitArrivals(1);
  stepped.cache.Invalidate(1);
  std::jthread third = stepped.Expect(50);
  AwaitWaiters(stepped.registry, 1);
  stepped.cache.Put(1, 50);
  third.join();
  stepped.doors[1].Open();
  stepped.doors[2].Open();
  first.join();
  second.join();
  EXPECT_EQ(stepped.begun, 2);
  EXPECT_EQ(**stepped.cache.GetIfPresent(1), 50);
}

}  // namespace
}  // namespace stockade::testing
