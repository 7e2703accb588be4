#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

TEST(GetAsyncTest, GetAsync_HitMissErrorAndAbsence_AnswersAsGetDoes) {
  std::atomic<int> loads{0};
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache({.negative_ttl = absl::Hours(1), .metrics = nullptr},
                 [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   ++loads;
                   if (key == 2) return absl::UnavailableError("");
                   if (key == 3) return absl::NotFoundError("");
                   if (key == 4) throw std::runtime_error("");
                   return 10 * key;
                 });
  Texts expected;
  const auto expect = [&](int key, const char* text, int loads_by_now) {
    cache.GetAsync(key, pool, answers.Callback());
    expected.push_back(text);
    EXPECT_EQ(answers.Await(expected.size()), expected);
    EXPECT_EQ(loads, loads_by_now);
  };
  expect(1, "10", 1);
  expect(1, "10", 1);
  expect(2, "UNAVAILABLE", 2);
  expect(2, "UNAVAILABLE", 3);
  expect(3, "NOT_FOUND", 4);
  expect(3, "NOT_FOUND", 4);
  expect(4, "INTERNAL", 5);
}

TEST(GetAsyncTest, GetAsync_NoLoader_FailedPreconditionWhereItWouldLoad) {
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache(LoadingCacheOptions{.metrics = nullptr});
  cache.GetAsync(1, pool, answers.Callback());
  EXPECT_EQ(answers.Await(1), Texts{"FAILED_PRECONDITION"});
}

TEST(GetAsyncTest, GetAsync_BatchLoaderAlone_IsABatchOfOne) {
  AsyncAnswers answers;
  ThreadPool pool(1);
  BatchCache batch({});
  batch.cache.GetAsync(7, pool, answers.Callback());
  EXPECT_EQ(answers.Await(1), Texts{"70"});
  EXPECT_EQ(batch.batches(), (std::vector<std::vector<int>>{{7}}));
}

// The callback may take what its caller holds, and its argument is the callback's own.
TEST(GetAsyncTest, GetAsync_HitOnAPool_TheCallbackRunsThereAndNotWithinTheCall) {
  std::mutex held;
  std::atomic<int> done{0};
  ThreadPool pool(1);
  IntCache cache({.metrics = nullptr}, [](const int& key, LoadContext&) -> absl::StatusOr<int> { return key; });
  cache.Put(1, 10);
  const std::thread::id self = std::this_thread::get_id();
  for (const int key : {1, 2}) {
    const std::lock_guard lock(held);
    cache.GetAsync(key, pool, [&](IntAnswer) {
      const std::lock_guard within(held);
      EXPECT_NE(std::this_thread::get_id(), self);
      ++done;
    });
    EXPECT_LE(done, 1);
  }
  SpinUntil([&] { return done == 2; });
}

TEST(GetAsyncTest, GetAsync_LoaderWithoutALoadExecutor_RunsOnTheRefreshExecutor) {
  std::thread::id load_thread, loader;
  AsyncAnswers known, answers;
  ThreadPool callbacks(1), loads(1);
  IntCache cache({.refresh_executor = &loads, .metrics = nullptr},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   loader = std::this_thread::get_id();
                   return 1;
                 });
  loads.Schedule([&, said = known.Callback()]() mutable {
    load_thread = std::this_thread::get_id();
    said(absl::AbortedError(""));
  });
  known.Await(1);
  cache.GetAsync(1, callbacks, answers.Callback());
  EXPECT_EQ(answers.Await(1), Texts{"1"});
  EXPECT_EQ(loader, load_thread);
}

TEST(GetAsyncTest, GetAsync_AThousandOnAColdKey_OneLoadAndEachIsAnsweredOnce) {
  const int calls = static_cast<int>(Scaled(1'000, 1'000));
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  std::vector<std::atomic<int>> answered(calls);
  std::atomic<int> all{0};
  ThreadPool pool(2);
  {
    IntCache cache({.metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
      door.Pass();
      return 700 + ++loads;
    });
    for (int i = 0; i < calls; ++i) {
      cache.GetAsync(7, pool, [&, i](IntAnswer answer) {
        EXPECT_EQ(Text(answer), "701");
        ++answered[i];
        ++all;
      });
    }
    AwaitWaiters(registry, calls);
    door.Open();
    SpinUntil([&] { return all >= calls; });
    EXPECT_EQ(Metric(registry, "stockade_cache_waiters"), 0);
  }
  EXPECT_EQ(loads, 1);
  for (const std::atomic<int>& times : answered) EXPECT_EQ(times, 1);
}

TEST(GetAsyncTest, GetAsync_WhileAGetLoads_JoinsItsFlight) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache({.metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return ++loads;
  });
  std::jthread get([&] { EXPECT_EQ(Text(cache.Get(1)), "1"); });
  door.AwaitArrivals(1);
  cache.GetAsync(1, pool, answers.Callback());
  AwaitWaiters(registry, 1);
  door.Open();
  EXPECT_EQ(answers.Await(1), Texts{"1"});
}

TEST(GetAsyncTest, Get_WhileAnAsyncCallLoads_JoinsItsFlight) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache({.metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return ++loads;
  });
  cache.GetAsync(1, pool, answers.Callback());
  door.AwaitArrivals(1);
  std::jthread get([&] { EXPECT_EQ(Text(cache.Get(1)), "1"); });
  std::jthread all([&] { EXPECT_EQ(TextsOf(cache.GetAll({1, 1})), (Texts{"1", "1"})); });
  AwaitWaiters(registry, 3);
  door.Open();
  EXPECT_EQ(answers.Await(1), Texts{"1"});
}

// What waited since before the invalidation has the old load's result; what came later has a new one.
TEST(GetAsyncTest, GetAsync_TagInvalidatedDuringTheLoad_WhoJoinedLaterLoadsAgain) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  AsyncAnswers early, late;
  ThreadPool pool(1);
  IntCache cache({.metrics = &registry}, [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
    const int run = ++loads;
    if (run == 1) door.Pass();
    load.AddTag("shoes");
    return run;
  });
  cache.GetAsync(1, pool, early.Callback());
  door.AwaitArrivals(1);
  cache.InvalidateTag("shoes");
  cache.GetAsync(1, pool, late.Callback());
  AwaitWaiters(registry, 2);
  door.Open();
  EXPECT_EQ(early.Await(1), Texts{"1"});
  EXPECT_EQ(late.Await(1), Texts{"2"});
  EXPECT_EQ(Text(cache.Get(1)), "2");
}

TEST(GetAsyncTest, Put_DuringTheLoad_IsTheAnswerAtOnce) {
  Door door;
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache({.metrics = nullptr}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    door.Pass();
    return 1;
  });
  cache.GetAsync(1, pool, answers.Callback());
  door.AwaitArrivals(1);
  cache.Put(1, 99);
  EXPECT_EQ(answers.Await(1), Texts{"99"});
  door.Open();
}

TEST(GetAsyncTest, GetAsync_HitThatIsDueForRefresh_IsAnsweredAtOnceAndRefreshed) {
  ManualClock clock;
  MetricsRegistry registry;
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache({.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = &registry},
                 [](const int&, LoadContext&) -> absl::StatusOr<int> { return 2; });
  cache.Put(1, 1);
  clock.Advance(absl::Seconds(5));
  cache.GetAsync(1, pool, answers.Callback());
  EXPECT_EQ(answers.Await(1), Texts{"1"});
  SpinUntil([&] { return Metric(registry, "stockade_cache_loads_total", "success") == 1; });
}

TEST(GetAsyncTest, Loader_GetAsyncOfItsOwnKey_FailedPreconditionAndOfAnotherWorks) {
  AsyncAnswers own, other;
  ThreadPool pool(1);
  IntCache* self = nullptr;
  IntCache cache({.metrics = nullptr}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    if (key == 1) {
      self->GetAsync(1, pool, own.Callback());
      self->GetAsync(2, pool, other.Callback());
    }
    return key;
  });
  self = &cache;
  EXPECT_EQ(Text(cache.Get(1)), "1");
  EXPECT_EQ(own.Await(1), Texts{"FAILED_PRECONDITION"});
  EXPECT_EQ(other.Await(1), Texts{"2"});
}

TEST(GetAsyncTest, Callback_CallsTheCache_Works) {
  InlineExecutor here;
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache({.metrics = nullptr}, [](const int& key, LoadContext&) -> absl::StatusOr<int> { return 10 * key; });
  cache.Put(1, 2);
  for (Executor* const executor : {static_cast<Executor*>(&here), static_cast<Executor*>(&pool)}) {
    cache.GetAsync(1, *executor, [&, executor](IntAnswer one) {
      cache.Invalidate(2);
      cache.GetAsync(**one, *executor, [&, said = answers.Callback()](IntAnswer two) mutable {
        cache.Put(3, **two + 1);
        said(cache.Get(3));
      });
    });
  }
  EXPECT_EQ(answers.Await(2), (Texts{"21", "21"}));
}

TEST(GetAsyncTest, GetAsync_AnyAnswer_CountsAsExactlyOneRequest) {
  MetricsRegistry registry;
  Door door;
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache({.negative_ttl = absl::Hours(1), .metrics = &registry},
                 [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   door.Pass();
                   if (key == 2) return absl::NotFoundError("");
                   return key;
                 });
  for (const int key : {1, 1, 2}) cache.GetAsync(key, pool, answers.Callback());
  AwaitWaiters(registry, 3);
  door.Open();
  answers.Await(3);
  for (const int key : {1, 2}) cache.GetAsync(key, pool, answers.Callback());
  answers.Await(5);
  EXPECT_EQ(Requests(registry, "miss"), 2);
  EXPECT_EQ(Requests(registry, "coalesced"), 1);
  EXPECT_EQ(Requests(registry, "hit"), 1);
  EXPECT_EQ(Requests(registry, "negative"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_wait_seconds"), 3);
}

}  // namespace
}  // namespace stockade::testing
