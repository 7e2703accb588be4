#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "cache/test_cache.h"

// How a GetAsync() ends that does not wait for its load's end: deadlines, time-outs, cancellation, destruction.

namespace stockade::testing {
namespace {

// A cache whose loads stand at a door until it is opened.
struct AsyncEnds : ::testing::Test {
  void Make(LoadingCacheOptions options) {
    options.clock = &clock;
    options.metrics = &registry;
    cache = std::make_unique<IntCache>(options, [this](const int&, LoadContext& load) -> absl::StatusOr<int> {
      const int run = ++loads;
      EXPECT_FALSE(load.stop_token().stop_possible()) << "it is for others as well";
      door.Pass();
      return 10 * run;
    });
  }
  void GetAsync(const CacheGetOptions& options = {}) { cache->GetAsync(1, pool, answers.Callback(), options); }
  void AwaitNoFlights() {
    SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
  }
  ~AsyncEnds() override { door.Open(); }

  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  AsyncAnswers answers;
  ThreadPool pool{1};  // Joined before the answers go.
  std::unique_ptr<IntCache> cache;
};
using AsyncEndsTest = AsyncEnds;

TEST_F(AsyncEndsTest, GetAsync_ItsDeadlinePasses_DeadlineExceededAndTheLoadIsStored) {
  Make({});
  GetAsync({.timeout = absl::Seconds(1)});
  door.AwaitArrivals(1);
  clock.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  EXPECT_EQ(answers.count(), 0u);
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(answers.Await(1), Texts{"DEADLINE_EXCEEDED"});
  EXPECT_EQ(Metric(registry, "stockade_cache_waiters"), 0);
  door.Open();
  AwaitNoFlights();
  GetAsync({.timeout = absl::ZeroDuration()});
  EXPECT_EQ(answers.Await(2)[1], "10");
  EXPECT_EQ(loads, 1);
}

TEST_F(AsyncEndsTest, GetAsync_ManyDeadlines_EachLeavesOnItsOwn) {
  Make({});
  for (const int seconds : {3, 1, 2}) GetAsync({.timeout = absl::Seconds(seconds)});
  GetAsync();
  AwaitWaiters(registry, 4);
  for (size_t left = 1; left <= 3; ++left) {
    clock.Advance(absl::Seconds(1));
    EXPECT_EQ(answers.Await(left).size(), left);
    EXPECT_EQ(Metric(registry, "stockade_cache_waiters"), 4.0 - left);
  }
  door.Open();
  EXPECT_EQ(answers.Await(4)[3], "10");
}

TEST_F(AsyncEndsTest, GetAsync_NoTimeAtAllAndNothingThere_DeadlineExceededWithoutALoad) {
  Make({});
  GetAsync({.timeout = absl::ZeroDuration()});
  GetAsync({.timeout = -absl::Seconds(1)});
  EXPECT_EQ(answers.Await(2), (Texts{"DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"}));
  EXPECT_EQ(loads, 0);
}

TEST_F(AsyncEndsTest, GetAsync_StoppedBefore_CancelledWithoutALoadUnlessItIsThere) {
  Make({});
  std::stop_source stop;
  stop.request_stop();
  GetAsync({.stop = stop.get_token()});
  EXPECT_EQ(answers.Await(1), Texts{"CANCELLED"});
  cache->Put(1, 5);
  GetAsync({.stop = stop.get_token()});
  EXPECT_EQ(answers.Await(2)[1], "5");
  EXPECT_EQ(loads, 0);
}

TEST_F(AsyncEndsTest, GetAsync_StoppedDuringTheLoad_LeavesWithCancelledAndTheLoadGoesOn) {
  Make({});
  std::stop_source stop;
  GetAsync({.stop = stop.get_token()});
  GetAsync();
  door.AwaitArrivals(1);
  AwaitWaiters(registry, 2);
  stop.request_stop();
  EXPECT_EQ(answers.Await(1), Texts{"CANCELLED"});
  door.Open();
  EXPECT_EQ(answers.Await(2)[1], "10");
  EXPECT_EQ(loads, 1);
}

TEST_F(AsyncEndsTest, GetAsync_AllWhoWaitLeaveBeforeTheLoadStarts_ItNeverStarts) {
  Door busy;
  ThreadPool loading(1);
  loading.Schedule([&] { busy.Pass(); });
  Make({.load_executor = &loading});
  GetAsync({.timeout = absl::Seconds(1)});
  AwaitWaiters(registry, 1);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(answers.Await(1), Texts{"DEADLINE_EXCEEDED"});
  cache.reset();
  busy.Open();
  EXPECT_EQ(loads, 0);
}

TEST_F(AsyncEndsTest, GetAsync_HardTimeout_AnsweredThenAndTheKeyIsFree) {
  Make({.load_hard_timeout = absl::Seconds(1)});
  GetAsync();
  door.AwaitArrivals(1);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(answers.Await(1), Texts{"DEADLINE_EXCEEDED"});
  GetAsync();
  door.AwaitArrivals(2);
  door.Open();
  EXPECT_EQ(answers.Await(2)[1], "20");
  AwaitNoFlights();
  EXPECT_EQ(Text(cache->Get(1)), "20") << "what came late is refused";
}

TEST_F(AsyncEndsTest, GetAsync_HardTimeoutWithAnOldValue_ItIsTheAnswer) {
  Make({.ttl = absl::Seconds(10), .stale_if_error = absl::Hours(1), .load_hard_timeout = absl::Seconds(1)});
  cache->Put(1, 5);
  clock.Advance(absl::Seconds(10));
  GetAsync();
  door.AwaitArrivals(1);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(answers.Await(1), Texts{"5"});
}

TEST_F(AsyncEndsTest, GetAsync_SoftTimeoutWithAnOldValue_ItIsTheAnswerAndTheLoadIsStored) {
  Make({.ttl = absl::Seconds(10), .stale_if_error = absl::Hours(1), .load_soft_timeout = absl::Seconds(1)});
  cache->Put(1, 5);
  clock.Advance(absl::Seconds(10));
  GetAsync();
  door.AwaitArrivals(1);
  EXPECT_EQ(answers.count(), 0u);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(answers.Await(1), Texts{"5"});
  SpinUntil([&] { return Requests(registry, "stale") == 1; });
  door.Open();
  AwaitNoFlights();
  EXPECT_EQ(Text(cache->Get(1)), "10");
}

TEST_F(AsyncEndsTest, GetAsync_SoftTimeoutWithoutAnOldValue_Waits) {
  Make({.stale_if_error = absl::Hours(1), .load_soft_timeout = absl::Seconds(1)});
  GetAsync({.timeout = absl::Seconds(3)});
  door.AwaitArrivals(1);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(answers.count(), 0u);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(answers.Await(1), Texts{"DEADLINE_EXCEEDED"});
}

TEST_F(AsyncEndsTest, Destructor_CallsWait_CancelledAtOnceAndTheLoaderIsAwaited) {
  Make({});
  for (int i = 0; i < 10; ++i) GetAsync({.timeout = absl::Hours(1 + i)});
  door.AwaitArrivals(1);
  AwaitWaiters(registry, 10);
  std::atomic<bool> destroyed{false};
  std::jthread destroyer([&] {
    cache.reset();
    destroyed = true;
  });
  EXPECT_EQ(answers.Await(10), Texts(10, "CANCELLED"));
  EXPECT_FALSE(destroyed);
  door.Open();
  destroyer.join();
  EXPECT_EQ(answers.count(), 10u);
}

TEST_F(AsyncEndsTest, Destructor_LoadNeverStarted_Cancelled) {
  Door busy;
  ThreadPool loading(1);
  loading.Schedule([&] { busy.Pass(); });
  Make({.load_executor = &loading});
  GetAsync();
  AwaitWaiters(registry, 1);
  cache.reset();
  EXPECT_EQ(answers.Await(1), Texts{"CANCELLED"});
  busy.Open();
}

TEST_F(AsyncEndsTest, GetAsync_Strict_WaitsForTheWriterWithoutBlockingTheCaller) {
  Make({.strict = true});
  door.Open();
  std::atomic<bool> written{false};
  ASSERT_TRUE(cache
                  ->UpdateThrough(1,
                                  [&] {
                                    // Were it to block, it would wait for this thread's own write.
                                    GetAsync();
                                    GetAsync();
                                    EXPECT_EQ(answers.count(), 0u);
                                    written = true;
                                    return absl::OkStatus();
                                  })
                  .ok());
  EXPECT_EQ(answers.Await(2), (Texts{"10", "10"}));
  EXPECT_TRUE(written);
  EXPECT_EQ(loads, 1);
}

TEST_F(AsyncEndsTest, GetAsync_StrictAndManyMisses_AllAreAnsweredByTwoThreads) {
  Make({.strict = true});
  door.Open();
  for (int key = 0; key < 50; ++key) cache->GetAsync(key / 2, pool, answers.Callback());
  EXPECT_EQ(answers.Await(50).size(), 50u);
  EXPECT_EQ(loads, 25);
}

TEST_F(AsyncEndsTest, Destructor_StrictCallWaitsForAWriter_Cancelled) {
  Make({.max_weight = 60, .strict = true});  // So small that it has one shard, which closes at one instant.
  IntCache* const raw = cache.get();
  std::jthread leader([raw] { EXPECT_EQ(Text(raw->Get(2)), "CANCELLED"); });
  door.AwaitArrivals(1);
  std::jthread waiter([raw] { EXPECT_EQ(Text(raw->Get(2)), "CANCELLED"); });
  AwaitWaiters(registry, 1);
  Door writing;
  std::jthread writer([&, raw] {
    EXPECT_TRUE(raw->UpdateThrough(1,
                                   [&] {
                                     writing.Pass();
                                     return absl::OkStatus();
                                   })
                    .ok());
  });
  writing.AwaitArrivals(1);
  GetAsync();
  std::jthread destroyer([&] { cache.reset(); });
  waiter.join();  // From here on it is closed.
  writing.Open();
  EXPECT_EQ(answers.Await(1), Texts{"CANCELLED"});
  door.Open();
  destroyer.join();
  EXPECT_EQ(loads, 1);
}

}  // namespace
}  // namespace stockade::testing
