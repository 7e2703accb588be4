#include <gtest/gtest.h>

#include <memory>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// The callback may lock a mutex that the caller of GetAsync() holds.
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

// A cache whose loads stand at a door until it is opened.
struct AsyncEnds : ::testing::Test {
  void Make(LoadingCacheOptions options) {
    options.clock = &clock;
    options.metrics = &registry;
    cache = std::make_unique<IntCache>(options, [this](const int&, LoadContext& load) -> absl::StatusOr<int> {
      const int run = ++loads;
      EXPECT_FALSE(load.stop_token().stop_possible()) << "later callers may join";
      door.Pass();
      return 10 * run;
    });
  }
  void GetAsync(const CacheGetOptions& options = {}) { cache->GetAsync(1, pool, answers.Callback(), options); }
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
                                    // If it blocked, it would wait for this thread's own write.
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

// A call that waits does not depend on the threads for refreshes, which may be busy.
TEST(GetAsyncTest, GetAsync_RefreshOfTheKeyIsQueued_LoadsOnTheLoadExecutor) {
  ManualExecutor loads, refreshes;
  InlineExecutor here;
  AsyncAnswers answers;
  IntCache cache({.load_executor = &loads, .refresh_executor = &refreshes, .metrics = nullptr}, ItsKey);
  cache.Refresh(1);
  cache.GetAsync(1, here, answers.Callback());
  loads.RunAll();
  EXPECT_EQ(answers.Await(1), Texts{"1"});
  EXPECT_EQ(loads.scheduled(), 1u);
  refreshes.RunAll();
  EXPECT_EQ(refreshes.scheduled(), 1u);
}

TEST(GetOrAsyncTest, GetOrAsync_NeedNotWait_AnswersAtOnceAndNeverCalls) {
  ManualClock clock;
  ThreadPool pool(1);
  MetricsRegistry registry;
  for (const bool strict : {false, true}) {
    IntCache cache({.negative_ttl = absl::Seconds(5), .strict = strict, .clock = &clock, .metrics = &registry},
                   [](const int& key) -> absl::StatusOr<int> {
                     if (key == 2) return absl::NotFoundError("none");
                     return key;
                   });
    cache.Put(1, 10);
    (void)cache.Get(2);
    const auto never = [](IntAnswer) { ADD_FAILURE(); };
    EXPECT_EQ(**cache.GetOrAsync(1, pool, never).value(), 10);
    EXPECT_EQ(cache.GetOrAsync(2, pool, never)->status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(cache.GetOrAsync(3, pool, never, {.timeout = absl::ZeroDuration()})->status().code(),
              absl::StatusCode::kDeadlineExceeded);
    AsyncAnswers answers;
    EXPECT_FALSE(cache.GetOrAsync(3, pool, answers.Callback()).has_value());
    EXPECT_EQ(answers.Await(1), Texts{"3"});
  }
  EXPECT_EQ(Requests(registry, "hit"), 2);
  EXPECT_EQ(Requests(registry, "negative"), 2);
  EXPECT_EQ(Requests(registry, "miss"), 6) << "the two before, those without time and those that loaded";
}

struct NoCopy {
  NoCopy() = default;
  NoCopy(const NoCopy&) { throw std::runtime_error("no copy"); }
  void operator()(IntAnswer) const { ADD_FAILURE(); }
};

TEST(GetOrAsyncTest, GetOrAsync_TheCallbackCannotBeCopied_InternalAndNothingRuns) {
  ThreadPool pool(1);
  IntCache cache({.metrics = nullptr}, ItsKey);
  const NoCopy done;
  EXPECT_EQ(cache.GetOrAsync(1, pool, done)->status().code(), absl::StatusCode::kInternal);
  cache.Put(1, 1);
  EXPECT_EQ(**cache.GetOrAsync(1, pool, done).value(), 1) << "a hit copies none";
}

// The destructor waits for a call whose callback is still being made.
TEST(GetOrAsyncTest, Destructor_WhileTheCallbackIsMade_WaitsForTheCall) {
  struct Slow {
    explicit Slow(Door& d) : door(&d) {}
    Slow(const Slow& other) : door(other.door) { door->Pass(); }
    void operator()(const IntAnswer& answer) const { EXPECT_EQ(Text(answer), "CANCELLED"); }
    Door* door;
  };
  InlineExecutor here;
  Door door;
  auto cache = std::make_unique<IntCache>(LoadingCacheOptions{.metrics = nullptr}, ItsKey);
  IntCache* const raw = cache.get();
  const Slow done(door);
  std::jthread caller([&] { (void)raw->GetOrAsync(1, here, done); });
  door.AwaitArrivals(1);
  std::atomic<bool> gone{false};
  std::jthread destroyer([&] {
    cache.reset();
    gone = true;
  });
  SpinUntil([&] { return raw->GetAll({1})[0].status().code() == absl::StatusCode::kCancelled; });
  EXPECT_FALSE(gone);
  door.Open();
}

}  // namespace
}  // namespace stockade::testing
