#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);

// The n-th load, from 0, stands at the n-th door and brings n + 1.
struct Timeouts : ::testing::Test {
  void Make(LoadingCacheOptions options) {
    options.clock = &clock;
    options.metrics = &registry;
    cache = std::make_unique<IntCache>(options, [this](const int&, LoadContext& load) -> absl::StatusOr<int> {
      const int run = loads++;
      deadlines.at(run) = load.deadline();
      doors.at(run).Pass();
      return run + 1;
    });
  }
  // One whose key 1 had the value 50 until now.
  void MakeExpired(LoadingCacheOptions options) {
    options.ttl = absl::Seconds(100);
    options.stale_if_error = absl::Hours(1);
    Make(options);
    cache->Put(1, 50);
    clock.Advance(absl::Seconds(100));
  }
  std::jthread Get(const char* expected, absl::Duration timeout = absl::InfiniteDuration()) {
    return std::jthread([this, expected, timeout] { EXPECT_EQ(Text(cache->Get(1, {.timeout = timeout})), expected); });
  }
  void AwaitNoFlights() {
    SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
  }
  double Loads(const char* result) { return Metric(registry, "stockade_cache_loads_total", result); }

  ManualClock clock;
  MetricsRegistry registry;
  std::vector<Door> doors{4};
  std::vector<Instant> deadlines{4};
  std::atomic<int> loads{0};
  std::unique_ptr<IntCache> cache;
};
using HardTimeoutTest = Timeouts;
using SoftTimeoutTest = Timeouts;

TEST_F(HardTimeoutTest, Get_LoadTakesTooLong_KeyIsFreeAndWhatComesLateIsRefused) {
  Make({.load_hard_timeout = kSecond});
  std::jthread leader = Get("DEADLINE_EXCEEDED");
  doors[0].AwaitArrivals(1);
  EXPECT_EQ(deadlines[0], clock.Now() + kSecond);
  std::jthread waiter = Get("DEADLINE_EXCEEDED");
  AwaitWaiters(registry, 1);
  clock.Advance(kSecond);
  waiter.join();  // Without the loader's return.
  doors[1].Open();
  EXPECT_EQ(Text(cache->Get(1)), "2");
  doors[0].Open();
  leader.join();
  EXPECT_EQ(Text(*cache->GetIfPresent(1)), "2");
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(Loads("timeout"), 1);
  EXPECT_EQ(Loads("success"), 1);
}

TEST_F(HardTimeoutTest, Get_LateResultAndNothingElse_IsNotStored) {
  Make({.load_hard_timeout = kSecond});
  std::jthread leader = Get("DEADLINE_EXCEEDED");
  doors[0].AwaitArrivals(1);
  clock.Advance(kSecond);
  doors[0].Open();
  leader.join();
  EXPECT_FALSE(cache->GetIfPresent(1).has_value());
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(HardTimeoutTest, Get_LoadEndsJustInTime_IsStored) {
  Make({.load_hard_timeout = kSecond});
  std::jthread leader = Get("1");
  doors[0].AwaitArrivals(1);
  clock.Advance(kSecond - absl::Nanoseconds(1));
  doors[0].Open();
  leader.join();
  EXPECT_TRUE(cache->GetIfPresent(1).has_value());
}

TEST_F(HardTimeoutTest, Get_OnALoadExecutor_TheCallerLeavesAtTheTimeout) {
  ThreadPool pool(2);
  Make({.load_hard_timeout = kSecond, .load_executor = &pool});
  std::jthread caller = Get("DEADLINE_EXCEEDED");
  doors[0].AwaitArrivals(1);
  clock.AwaitWaiters(1);
  clock.Advance(kSecond);
  caller.join();
  doors[1].Open();
  EXPECT_EQ(Text(cache->Get(1)), "2");
  doors[0].Open();
  AwaitNoFlights();
  EXPECT_EQ(Text(cache->Get(1)), "2");
  cache.reset();
}

TEST_F(HardTimeoutTest, Get_OldValueForAnOutage_StandsInAndTheNextTryWaitsForTheBackoff) {
  MakeExpired({.retry_backoff = absl::Seconds(10), .load_hard_timeout = kSecond});
  std::jthread leader = Get("50");
  doors[0].AwaitArrivals(1);
  std::jthread waiter = Get("50");
  AwaitWaiters(registry, 1);
  clock.Advance(kSecond);
  waiter.join();
  EXPECT_EQ(Text(cache->Get(1)), "50");
  EXPECT_EQ(loads, 1) << "not before the back-off is over";
  doors[0].Open();
  leader.join();
  clock.Advance(absl::Seconds(10));
  doors[1].Open();
  EXPECT_EQ(Text(cache->Get(1)), "2");
  EXPECT_EQ(Requests(registry, "stale"), 3);
}

TEST_F(HardTimeoutTest, Get_TwoLoadsHang_TheThirdWaitsAndIsGivenUpAfterTheSameTime) {
  Make({.load_hard_timeout = kSecond});
  std::jthread first = Get("DEADLINE_EXCEEDED");
  doors[0].AwaitArrivals(1);
  clock.Advance(kSecond);
  std::jthread second = Get("DEADLINE_EXCEEDED");
  doors[1].AwaitArrivals(1);
  clock.Advance(kSecond);
  std::jthread third = Get("DEADLINE_EXCEEDED");
  AwaitWaiters(registry, 1);
  EXPECT_EQ(loads, 2);
  clock.Advance(kSecond);
  third.join();
  EXPECT_EQ(loads, 2);
  // As soon as one of them has ended there is room for the next.
  std::jthread fourth = Get("3");
  AwaitWaiters(registry, 1);
  doors[0].Open();
  doors[2].AwaitArrivals(1);
  EXPECT_EQ(deadlines[2], clock.Now() + kSecond);
  doors[2].Open();
  fourth.join();
  doors[1].Open();
  second.join();
  EXPECT_EQ(Text(cache->Get(1)), "3");
  EXPECT_EQ(Loads("timeout"), 2);
}

TEST_F(HardTimeoutTest, Get_ExecutorIsFull_GivenUpAfterTheSameTime) {
  Door busy;
  ThreadPool pool(1);
  pool.Schedule([&] { busy.Pass(); });
  Make({.load_hard_timeout = kSecond, .load_executor = &pool});
  std::jthread caller = Get("DEADLINE_EXCEEDED");
  AwaitWaiters(registry, 1);
  clock.Advance(kSecond);
  caller.join();
  busy.Open();
  cache.reset();
  EXPECT_EQ(loads, 0);
}

TEST_F(HardTimeoutTest, Refresh_TakesTooLong_TheOldValueStaysAndTheKeyIsFree) {
  Make({.load_hard_timeout = kSecond});
  cache->Put(1, 50);
  cache->Refresh(1);
  doors[0].AwaitArrivals(1);
  clock.Advance(kSecond);
  EXPECT_EQ(Text(cache->Get(1)), "50");
  cache->Refresh(1);
  doors[1].AwaitArrivals(1);
  doors[1].Open();
  SpinUntil([&] { return Text(cache->Get(1)) == "2"; });
  doors[0].Open();
  AwaitNoFlights();
  EXPECT_EQ(Text(cache->Get(1)), "2");
}

TEST_F(HardTimeoutTest, GetAll_BatchTakesTooLong_ItsKeysAreFreeAndWhatComesLateIsRefused) {
  Door slow;
  std::atomic<int> runs{0};
  BatchCache batch({.load_hard_timeout = kSecond, .clock = &clock}, [&](const std::vector<int>& keys, IntBatch& found) {
    if (++runs == 1) slow.Pass();
    for (const int key : keys) found.Add(key, 100 * runs + key);
    return absl::OkStatus();
  });
  std::jthread all([&] { EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"})); });
  slow.AwaitArrivals(1);
  std::jthread waiter([&] { EXPECT_EQ(batch.GetAll({2}), Texts{"DEADLINE_EXCEEDED"}); });
  AwaitWaiters(batch.registry, 1);
  clock.Advance(kSecond);
  waiter.join();
  EXPECT_EQ(batch.GetAll({2}), Texts{"202"});
  slow.Open();
  all.join();
  EXPECT_FALSE(batch.cache.GetIfPresent(1).has_value());
  EXPECT_EQ(Text(batch.cache.Get(2)), "202");
}

TEST_F(SoftTimeoutTest, Get_OldValueForAnOutage_IsTheAnswerAndTheLoadIsStored) {
  MakeExpired({.load_soft_timeout = kSecond});
  // Has no executor of its own, and is served all the same.
  std::jthread leader = Get("50");
  doors[0].AwaitArrivals(1);
  std::jthread waiter = Get("50");
  AwaitWaiters(registry, 2);
  clock.Advance(kSecond - absl::Nanoseconds(1));
  EXPECT_EQ(Metric(registry, "stockade_cache_waiters"), 2);
  clock.Advance(absl::Nanoseconds(1));
  leader.join();
  waiter.join();
  EXPECT_EQ(Requests(registry, "stale"), 2);
  doors[0].Open();
  AwaitNoFlights();
  EXPECT_EQ(Text(cache->Get(1)), "1");
  EXPECT_EQ(loads, 1);
}

TEST_F(SoftTimeoutTest, Get_LoadIsInTime_ItsResultIsTheAnswer) {
  MakeExpired({.load_soft_timeout = kSecond});
  std::jthread leader = Get("1");
  doors[0].AwaitArrivals(1);
  doors[0].Open();
}

TEST_F(SoftTimeoutTest, Get_OwnDeadlineIsFirst_DeadlineExceeded) {
  MakeExpired({.load_soft_timeout = absl::Seconds(5)});
  std::jthread leader = Get("DEADLINE_EXCEEDED", kSecond);
  doors[0].AwaitArrivals(1);
  clock.AwaitWaiters(1);
  clock.Advance(kSecond);
  leader.join();
  doors[0].Open();
}

TEST_F(SoftTimeoutTest, Get_NoOldValue_WaitsForTheLoad) {
  Make({.stale_if_error = absl::Hours(1), .load_soft_timeout = kSecond});
  std::jthread leader = Get("1");
  doors[0].AwaitArrivals(1);
  std::jthread waiter = Get("1");
  AwaitWaiters(registry, 1);
  clock.Advance(absl::Seconds(2));
  doors[0].Open();
}

TEST_F(SoftTimeoutTest, Get_OldValueWasInvalidated_IsNotServed) {
  MakeExpired({.load_soft_timeout = kSecond});
  std::jthread leader = Get("1");
  doors[0].AwaitArrivals(1);
  AwaitWaiters(registry, 1);
  cache->Invalidate(1);
  clock.Advance(kSecond);
  doors[0].Open();
}

TEST_F(SoftTimeoutTest, GetAll_OldValueForAnOutage_IsTheAnswerAndTheLoadIsStored) {
  Door slow;
  BatchCache batch({.ttl = kSecond, .stale_if_error = absl::Hours(1), .load_soft_timeout = kSecond, .clock = &clock},
                   [&](const std::vector<int>& keys, IntBatch& found) {
                     slow.Pass();
                     return AddTenfold(keys, found);
                   });
  for (const int key : {1, 2}) batch.cache.Put(key, 50 + key);
  clock.Advance(kSecond);
  std::jthread all([&] { EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"51", "52"})); });
  slow.AwaitArrivals(1);
  clock.AwaitWaiters(1);
  clock.Advance(kSecond);
  all.join();
  slow.Open();
  SpinUntil([&] { return Metric(batch.registry, "stockade_cache_flights") == 0; });
  EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "20"}));
  EXPECT_EQ(batch.batches().size(), 1u);
}

}  // namespace
}  // namespace stockade::testing
