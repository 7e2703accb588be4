#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;

// Loader that is given the cache itself.
struct NestedCache {
  using Load = std::function<absl::StatusOr<int>(IntCache&, int)>;
  NestedCache(LoadingCacheOptions options, Load load)
      : cache(With(std::move(options), &registry),
              [this, load](const int& key, LoadContext&) -> absl::StatusOr<int> { return load(cache, key); }) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, MetricsRegistry* registry) {
    options.metrics = registry;
    return options;
  }

  MetricsRegistry registry;
  IntCache cache;
};

absl::StatusOr<int> GetInt(IntCache& cache, int key) {
  const IntAnswer answer = cache.Get(key);
  if (!answer.ok()) return answer.status();
  return **answer;
}

TEST(CircleTest, Loader_AsksForItsOwnKey_FailedPrecondition) {
  NestedCache nested({}, [](IntCache& cache, int key) { return GetInt(cache, key); });
  EXPECT_EQ(nested.cache.Get(1).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Its own load is detached by then, and still the key's: no second one begins inside it.
TEST(CircleTest, Loader_InvalidatesAndAsksForItsOwnKey_FailedPreconditionAfterOneLoad) {
  int loads = 0;
  NestedCache nested({}, [&](IntCache& cache, int key) {
    ++loads;
    cache.Invalidate(key);
    return GetInt(cache, key);
  });
  EXPECT_EQ(nested.cache.Get(1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(loads, 1);
}

TEST(CircleTest, Loader_AsksForAnotherKey_GetsIt) {
  NestedCache nested({}, [](IntCache& cache, int key) -> absl::StatusOr<int> {
    if (key == 0) return 1;
    const absl::StatusOr<int> below = GetInt(cache, key - 1);
    if (!below.ok()) return below.status();
    return *below * 2;
  });
  EXPECT_EQ(**nested.cache.Get(10), 1024);
  EXPECT_EQ(nested.cache.size(), 11);
}

TEST(CircleTest, Loader_CircleOnOneThread_FailedPrecondition) {
  NestedCache nested({}, [](IntCache& cache, int key) { return GetInt(cache, (key + 1) % 5); });
  EXPECT_EQ(nested.cache.Get(0).status().code(), absl::StatusCode::kFailedPrecondition);
}

// A and B are loaded by two threads, and each loader asks for the other key once both run. One is refused; it may
// answer nevertheless, and then the other has its value.
TEST(CircleTest, Loaders_AskForEachOther_OneIsRefusedAndNoneHangs) {
  ThreadPool pool(2);
  for (Executor* const executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    std::atomic<int> running{0};
    std::atomic<int> refused{0};
    NestedCache nested({.load_executor = executor}, [&](IntCache& cache, int key) -> absl::StatusOr<int> {
      ++running;
      SpinUntil([&] { return running == 2; });
      const absl::StatusOr<int> other = GetInt(cache, 1 - key);
      if (other.ok()) return *other + 1;
      EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
      ++refused;
      return 100;
    });
    int zero = 0, one = 0;
    std::jthread a([&] { zero = **nested.cache.Get(0); });
    std::jthread b([&] { one = **nested.cache.Get(1); });
    a.join();
    b.join();
    EXPECT_EQ(refused, 1);
    EXPECT_EQ(zero + one, 201);
  }
}

TEST(CircleTest, Loaders_OfTwoCachesAskForEachOther_OneIsRefused) {
  std::atomic<int> refused{0};
  std::atomic<int> running{0};
  IntCache* caches[2];
  const auto loader_of = [&](int self) {
    return [&, self](const int& key, LoadContext&) -> absl::StatusOr<int> {
      ++running;
      SpinUntil([&] { return running == 2; });
      const absl::StatusOr<int> other = GetInt(*caches[1 - self], key);
      if (other.ok()) return *other + 1;
      ++refused;
      return 100;
    };
  };
  IntCache left({.metrics = nullptr}, loader_of(0));
  IntCache right({.metrics = nullptr}, loader_of(1));
  caches[0] = &left;
  caches[1] = &right;
  std::jthread a([&] { EXPECT_TRUE(left.Get(1).ok()); });
  std::jthread b([&] { EXPECT_TRUE(right.Get(1).ok()); });
  a.join();
  b.join();
  EXPECT_EQ(refused, 1);
}

// The pool's only thread runs 2's loader, which needs 1, which waits in the pool's queue behind it.
TEST(CircleTest, Loader_AsksForAKeyQueuedBehindIt_RunsItItself) {
  Door door;
  std::atomic<int> loads{0};
  ThreadPool pool(1);
  NestedCache nested({.load_executor = &pool}, [&](IntCache& cache, int key) -> absl::StatusOr<int> {
    ++loads;
    if (key == 1) return 10;
    door.Pass();
    return GetInt(cache, 1);
  });
  std::jthread two([&] { EXPECT_EQ(**nested.cache.Get(2), 10); });
  door.AwaitArrivals(1);
  std::jthread one([&] { EXPECT_EQ(**nested.cache.Get(1), 10); });
  AwaitWaiters(nested.registry, 2);
  door.Open();
  two.join();
  one.join();
  EXPECT_EQ(loads, 2);
}

// 2's loader waits for 1's next load, which may only start when one of 1's two detached ones ends; one of those waits
// for 2.
TEST(CircleTest, Loader_WaitsForALoadBlockedByOneThatWaitsForIt_FailedPrecondition) {
  Door detached[2], two_runs;
  std::atomic<int> ones{0};
  std::atomic<int> refused{0};
  NestedCache nested({}, [&](IntCache& cache, int key) -> absl::StatusOr<int> {
    if (key == 2) {
      two_runs.Pass();
      const absl::StatusOr<int> one = GetInt(cache, 1);
      if (one.status().code() == absl::StatusCode::kFailedPrecondition) ++refused;
      return 2;
    }
    const int mine = ones++;
    detached[mine].Pass();
    return mine == 0 ? GetInt(cache, 2) : 1;
  });
  std::jthread first([&] { EXPECT_EQ(**nested.cache.Get(1), 2); });
  detached[0].AwaitArrivals(1);
  nested.cache.Invalidate(1);
  std::jthread second([&] { EXPECT_EQ(**nested.cache.Get(1), 1); });
  detached[1].AwaitArrivals(1);
  nested.cache.Invalidate(1);
  std::jthread two([&] { EXPECT_EQ(**nested.cache.Get(2), 2); });
  two_runs.AwaitArrivals(1);
  detached[0].Open();
  AwaitWaiters(nested.registry, 1);  // The first load of 1 waits for 2.
  two_runs.Open();
  two.join();
  EXPECT_EQ(refused, 1);
  first.join();
  detached[1].Open();
}

// The load is queued behind a full executor by an ordinary call. A loader that waits for it as well runs it itself,
// once it may start.
TEST(CircleTest, Loader_WaitsForABlockedLoadThatGetsItsTurn_RunsItItselfWithAFullExecutor) {
  Door ones[3], two, busy;
  ones[2].Open();
  std::atomic<int> runs{0};
  ThreadPool pool(3);
  NestedCache nested({.load_executor = &pool}, [&](IntCache& cache, int key) -> absl::StatusOr<int> {
    if (key == 2) {
      two.Pass();
      return GetInt(cache, 1);
    }
    const int run = runs++;
    ones[run].Pass();
    return run + 1;
  });
  IntCache& cache = nested.cache;
  std::jthread first([&] { EXPECT_EQ(**cache.Get(1), 1); });
  ones[0].AwaitArrivals(1);
  cache.Invalidate(1);
  std::jthread second([&] { EXPECT_EQ(**cache.Get(1), 2); });
  ones[1].AwaitArrivals(1);
  cache.Invalidate(1);
  std::jthread needs_one([&] { EXPECT_EQ(**cache.Get(2), 3); });
  two.AwaitArrivals(1);
  std::jthread outer([&] { EXPECT_EQ(**cache.Get(1), 3); });
  AwaitWaiters(nested.registry, 4);
  two.Open();
  AwaitWaiters(nested.registry, 5);     // 2's loader waits for the blocked load.
  pool.Schedule([&] { busy.Pass(); });  // Takes the thread that is going to be free.
  ones[0].Open();
  busy.AwaitArrivals(1);
  needs_one.join();
  busy.Open();
  ones[1].Open();
}

TEST(CircleTest, Error_NamesTheKeys) {
  NestedCache nested({.name = "c"}, [](IntCache& cache, int key) { return GetInt(cache, key % 3 + 1); });
  EXPECT_THAT(nested.cache.Get(1).status().ToString(), HasSubstr("'c' key 1 -> 'c' key 2 -> 'c' key 3 -> 'c' key 1"));
}

struct Unprintable {
  bool operator==(const Unprintable&) const = default;
  int id;
};
struct UnprintableHash {
  size_t operator()(const Unprintable& key) const { return static_cast<size_t>(key.id); }
};

TEST(CircleTest, Error_QuotesTextAndToleratesKeysThatCannotBePrinted) {
  LoadingCache<std::string, int>* texts = nullptr;
  LoadingCache<Unprintable, int, UnprintableHash> others(
      {.name = "o", .metrics = nullptr},
      [&](const Unprintable&, LoadContext&) -> absl::StatusOr<int> { return texts->Get("a\n").status(); });
  LoadingCache<std::string, int> cache(
      {.name = "t", .metrics = nullptr},
      [&](const std::string&, LoadContext&) -> absl::StatusOr<int> { return others.Get(Unprintable{1}).status(); });
  texts = &cache;
  EXPECT_THAT(cache.Get("a\n").status().ToString(), HasSubstr("'t' key 'a\\n' -> 'o' key ? -> 't' key 'a\\n'"));
}

TEST(CircleTest, Error_OfSeveralThreads_NamesTheKeys) {
  std::atomic<int> running{0};
  std::string error;
  NestedCache nested({.name = "c"}, [&](IntCache& cache, int key) -> absl::StatusOr<int> {
    ++running;
    SpinUntil([&] { return running == 2; });
    const absl::StatusOr<int> other = GetInt(cache, 1 - key);
    if (!other.ok()) error = other.status().ToString();
    return 0;
  });
  std::jthread a([&] { EXPECT_TRUE(nested.cache.Get(0).ok()); });
  std::jthread b([&] { EXPECT_TRUE(nested.cache.Get(1).ok()); });
  a.join();
  b.join();
  EXPECT_THAT(error, ::testing::AnyOf(HasSubstr("'c' key 0 -> 'c' key 1 -> 'c' key 0"),
                                      HasSubstr("'c' key 1 -> 'c' key 0 -> 'c' key 1")));
}

// Handlers of requests have the pool that is the load_executor too.
TEST(CircleTest, Get_OnTheOnlyThreadOfTheLoadExecutor_RunsTheLoad) {
  Texts got;
  Door done;
  done.Open();
  ThreadPool pool(1);
  IntCache cache({.load_executor = &pool, .metrics = nullptr}, ItsKey);
  IntCache batches({.load_executor = &pool, .metrics = nullptr}, IntCache::Callbacks{.load_all = AddTenfold});
  pool.Schedule([&] {
    got = TextsOf({cache.Get(7), cache.Get(8, {.timeout = absl::Minutes(1)})});
    for (std::string& text : TextsOf(batches.GetAll({1, 2}))) got.push_back(std::move(text));
    done.Pass();
  });
  done.AwaitArrivals(1);
  EXPECT_EQ(got, (Texts{"7", "8", "10", "20"}));
}

// The same where a call of another thread has queued the load behind the handler.
TEST(CircleTest, Get_OnTheLoadExecutorOfALoadThatIsQueuedBehindIt_RunsTheLoad) {
  Door handler, done;
  done.Open();
  std::string got;
  ThreadPool pool(1);
  MetricsRegistry registry;
  IntCache cache({.load_executor = &pool, .metrics = &registry}, ItsKey);
  pool.Schedule([&] {
    handler.Pass();
    got = Text(cache.Get(7));
    done.Pass();
  });
  handler.AwaitArrivals(1);
  std::jthread other([&] { EXPECT_EQ(**cache.Get(7), 7); });
  AwaitWaiters(registry, 1);
  handler.Open();
  done.AwaitArrivals(1);
  EXPECT_EQ(got, "7");
}

TEST(CircleTest, Get_OnTheRefreshExecutorThatLoadsForASoftTimeout_RunsTheLoad) {
  Door done;
  done.Open();
  std::string got;
  ManualClock clock;
  ThreadPool pool(1);
  IntCache cache({.ttl = absl::Seconds(1),
                  .stale_if_error = absl::Hours(1),
                  .load_soft_timeout = absl::Seconds(1),
                  .clock = &clock,
                  .refresh_executor = &pool,
                  .metrics = nullptr},
                 ItsKey);
  ASSERT_TRUE(cache.Get(7).ok());
  clock.Advance(absl::Seconds(2));
  pool.Schedule([&] {
    got = Text(cache.Get(7));
    done.Pass();
  });
  done.AwaitArrivals(1);
  EXPECT_EQ(got, "7");
}

}  // namespace
}  // namespace stockade::testing
