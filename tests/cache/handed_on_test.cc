#include <gtest/gtest.h>

#include <functional>
#include <stop_token>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

// Loads whose callers leave: handed on to those who stay, run for those only, and no failure of the key's.
namespace stockade::testing {
namespace {

// The refresh's task finds the load running on a caller's thread. That caller gives up, and so has the other: nobody
// but the executor is left to run it.
TEST(HandedOnTest, Refresh_BegunByACallThatGaveUp_IsRunByItsExecutor) {
  MetricsRegistry registry;
  ManualClock clock;
  Door busy, one, three, passed;
  passed.Open();
  std::atomic<int> ones{0};
  ThreadPool pool(1);
  IntCache cache({.clock = &clock, .refresh_executor = &pool, .metrics = &registry},
                 [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   if (key == 3) three.Pass();
                   if (key == 3 || ++ones > 1) return key;
                   one.Pass();
                   return absl::DeadlineExceededError("");
                 });
  pool.Schedule([&] { busy.Pass(); });
  busy.AwaitArrivals(1);
  cache.Refresh(1);
  std::jthread leader([&] { EXPECT_EQ(Text(cache.Get(1, {.timeout = absl::Seconds(1)})), "DEADLINE_EXCEEDED"); });
  one.AwaitArrivals(1);
  std::jthread other([&] { (void)cache.GetAll({3, 1}, {.timeout = absl::Seconds(1)}); });
  three.AwaitArrivals(1);
  busy.Open();
  pool.Schedule([&] { passed.Pass(); });
  passed.AwaitArrivals(1);
  clock.Advance(absl::Seconds(2));
  one.Open();
  leader.join();
  three.Open();
  other.join();
  SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
  EXPECT_EQ(ones, 2);
  EXPECT_TRUE(cache.GetIfPresent(1).has_value());
}

// The executor is full; a loader of another cache runs the load itself, with a deadline, and gives up.
TEST(HandedOnTest, HardTimeout_OfALoadThatWaitsAgainForItsExecutor_EndsTheWait) {
  MetricsRegistry registry;
  ManualClock clock;
  Door busy, loading;
  ThreadPool pool(1);
  pool.Schedule([&] { busy.Pass(); });
  IntCache cache({.load_hard_timeout = absl::Seconds(5), .clock = &clock, .load_executor = &pool, .metrics = &registry},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   loading.Pass();
                   return absl::DeadlineExceededError("");
                 });
  IntCache outer({.clock = &clock, .metrics = nullptr}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    return cache.Get(1, {.timeout = absl::Seconds(1)}).status();
  });
  std::jthread waiter([&] { EXPECT_EQ(Text(cache.Get(1)), "DEADLINE_EXCEEDED"); });
  AwaitWaiters(registry, 1);
  std::jthread runner([&] { EXPECT_EQ(Text(outer.Get(1)), "DEADLINE_EXCEEDED"); });
  loading.AwaitArrivals(1);
  clock.Advance(absl::Seconds(2));
  loading.Open();
  runner.join();
  clock.Advance(absl::Seconds(5));
  waiter.join();
  busy.Open();
}

// GetAll() has a place with 2's load and no deadline, and cannot run it now.
TEST(HandedOnTest, Load_HandedOnWhileAGetAllLoadsAnotherKey_IsRunByWhoIsFree) {
  MetricsRegistry registry;
  ManualClock clock;
  Door one, two;
  std::atomic<int> twos{0};
  IntCache cache({.clock = &clock, .metrics = &registry}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    if (key == 1) one.Pass();
    if (key == 1 || ++twos > 1) return key;
    two.Pass();
    return absl::CancelledError("");
  });
  std::stop_source stop;
  std::jthread leader([&] { EXPECT_EQ(Text(cache.Get(2, {.stop = stop.get_token()})), "CANCELLED"); });
  two.AwaitArrivals(1);
  std::jthread all([&] { EXPECT_EQ(TextsOf(cache.GetAll({1, 2})), (Texts{"1", "2"})); });
  one.AwaitArrivals(1);
  std::jthread waiter([&] { EXPECT_EQ(Text(cache.Get(2, {.timeout = absl::Hours(1)})), "2"); });
  AwaitWaiters(registry, 1);
  stop.request_stop();
  two.Open();
  leader.join();
  waiter.join();
  EXPECT_EQ(twos, 2);
  one.Open();
}

TEST(HandedOnTest, GetAsync_IsHandedALoad_CountsAsOneRequestThatWaited) {
  MetricsRegistry registry;
  Door door;
  AsyncAnswers answers;
  ThreadPool pool(1);
  std::atomic<int> loads{0};
  IntCache cache({.metrics = &registry}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    if (++loads > 1) return key;
    door.Pass();
    return absl::CancelledError("");
  });
  std::stop_source stop;
  std::jthread leader([&] { EXPECT_EQ(Text(cache.Get(1, {.stop = stop.get_token()})), "CANCELLED"); });
  door.AwaitArrivals(1);
  cache.GetAsync(1, pool, answers.Callback());
  AwaitWaiters(registry, 1);
  stop.request_stop();
  door.Open();
  leader.join();
  EXPECT_EQ(answers.Await(1), Texts{"1"});
  EXPECT_EQ(Requests(registry, "miss"), 1);
  EXPECT_EQ(Requests(registry, "coalesced"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_wait_seconds"), 1);
}

// Its end is its own: neither a stale value for it nor a back-off for the others.
TEST(HandedOnTest, Get_GivesUpAlone_IsNoFailureOfTheKey) {
  for (const bool stopped : {true, false}) {
    ManualClock clock;
    std::stop_source stop;
    int loads = 0;
    IntCache cache({.ttl = absl::Seconds(1),
                    .stale_if_error = absl::Hours(1),
                    .retry_backoff = absl::Minutes(1),
                    .clock = &clock,
                    .metrics = nullptr},
                   [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                     if (++loads > 1) return 10 * key;
                     if (!stopped) {
                       clock.Advance(absl::Seconds(1));
                       return absl::DeadlineExceededError("");
                     }
                     stop.request_stop();
                     return absl::CancelledError("");
                   });
    cache.Put(1, 1);
    clock.Advance(absl::Seconds(2));
    EXPECT_EQ(Text(cache.Get(1, {.timeout = absl::Seconds(1), .stop = stop.get_token()})),
              stopped ? "CANCELLED" : "DEADLINE_EXCEEDED");
    EXPECT_EQ(Text(cache.Get(1)), "10");
    EXPECT_EQ(loads, 2);
  }
}

// `call` is answered with Cancelled while its load is queued.
void LeaveTheQueue(const std::function<void(IntCache&, CacheGetOptions)>& call, bool batch) {
  MetricsRegistry registry;
  ManualExecutor executor;
  int loads = 0;
  IntCache::Callbacks callbacks{.load = [&](const int& key, ValueLoadContext<int>&) -> absl::StatusOr<int> {
    ++loads;
    return key;
  }};
  if (batch) {
    callbacks.load_all = [&](const std::vector<int>& keys, IntBatch& found) {
      ++loads;
      return AddTenfold(keys, found);
    };
  }
  IntCache cache({.load_executor = &executor, .metrics = &registry}, callbacks);
  std::stop_source stop;
  std::jthread caller([&] { call(cache, {.stop = stop.get_token()}); });
  SpinUntil([&] { return executor.scheduled() > 0; });
  stop.request_stop();
  caller.join();
  executor.RunAll();
  EXPECT_EQ(loads, 0) << "loaded for nobody";
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
  const size_t before = executor.scheduled();
  std::jthread next([&] { EXPECT_EQ(Text(cache.Get(1)), "1"); });
  SpinUntil([&] { return executor.scheduled() > before; });
  executor.RunAll();
  next.join();
  EXPECT_EQ(loads, 1);
}

TEST(HandedOnTest, QueuedLoad_AllHaveLeft_IsNotRun) {
  LeaveTheQueue([](IntCache& cache, CacheGetOptions options) { EXPECT_EQ(Text(cache.Get(1, options)), "CANCELLED"); },
                false);
  LeaveTheQueue(
      [](IntCache& cache, CacheGetOptions options) {
        AsyncAnswers answers;
        ThreadPool pool(1);
        cache.GetAsync(1, pool, answers.Callback(), options);
        EXPECT_EQ(answers.Await(1), Texts{"CANCELLED"});
      },
      false);
}

TEST(HandedOnTest, QueuedBatch_AllHaveLeft_IsNotRun) {
  LeaveTheQueue(
      [](IntCache& cache, CacheGetOptions options) {
        EXPECT_EQ(TextsOf(cache.GetAll({1, 2}, options)), Texts(2, "CANCELLED"));
      },
      true);
}

struct CopiesCounted {
  explicit CopiesCounted(int* copies) : copies(copies) {}
  CopiesCounted(const CopiesCounted& other) : copies(other.copies) { ++*copies; }
  absl::StatusOr<int> operator()(const int& key, ValueLoadContext<int>&) const { return key; }
  int* copies;
};

TEST(HandedOnTest, GetOrLoad_HitsWhileARefreshIsQueued_DoNotCopyTheLoader) {
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

TEST(HandedOnTest, NotModified_TheValueIsHandedOnToANewEntry_IsToldWhenItLeavesAndNotBefore) {
  ManualClock clock;
  int told = 0;
  IntCache cache({.ttl = absl::Seconds(1), .clock = &clock, .metrics = nullptr},
                 IntCache::Callbacks{.load = [](const int& key, ValueLoadContext<int>& load) -> absl::StatusOr<int> {
                                       if (load.previous() != nullptr) return load.NotModified();
                                       return key;
                                     },
                                     .on_removal =
                                         [&](const int&, const CacheHandle<int>&, RemovalCause cause) {
                                           EXPECT_EQ(cause, RemovalCause::kInvalidated);
                                           ++told;
                                         }});
  EXPECT_EQ(**cache.Get(1), 1);
  for (int i = 0; i < 3; ++i) {
    clock.Advance(absl::Seconds(2));
    EXPECT_EQ(**cache.Get(1), 1);
    EXPECT_EQ(told, 0);
  }
  cache.Invalidate(1);
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace stockade::testing
