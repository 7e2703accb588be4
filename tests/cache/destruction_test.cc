#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

class DestructionTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(CallersThreadOrExecutor, DestructionTest, ::testing::Bool());

TEST_P(DestructionTest, Destructor_LoadsInFlight_CancelsWaitersAtOnceAndWaitsForTheLoaders) {
  MetricsRegistry registry;
  Door door;
  ThreadPool pool(1);
  std::atomic<bool> loader_ended{false};
  auto cache = std::make_unique<IntCache>(
      LoadingCacheOptions{.load_executor = GetParam() ? &pool : nullptr, .metrics = &registry},
      [&](const int&, LoadContext&) -> absl::StatusOr<int> {
        door.Pass();
        loader_ended = true;
        return 1;
      });
  IntCache* const raw = cache.get();
  std::jthread leader([&, raw] { EXPECT_EQ(raw->Get(1).status().code(), absl::StatusCode::kCancelled); });
  door.AwaitArrivals(1);
  std::vector<std::jthread> waiters;
  for (int i = 0; i < 10; ++i) {
    waiters.emplace_back([&, raw] { EXPECT_EQ(raw->Get(1).status().code(), absl::StatusCode::kCancelled); });
  }
  AwaitWaiters(registry, GetParam() ? 11 : 10);
  std::atomic<bool> destroyed{false};
  std::jthread destroyer([&] {
    cache.reset();
    EXPECT_TRUE(loader_ended);
    destroyed = true;
  });
  waiters.clear();  // All have left while the loader is still at its door.
  EXPECT_FALSE(loader_ended);
  EXPECT_FALSE(destroyed);
  door.Open();
}

TEST(CacheDestructionTest, Destructor_LoadsQueuedInAnExecutor_NeverStart) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  ThreadPool pool(1);
  pool.Schedule([&] { door.Pass(); });
  auto cache = std::make_unique<IntCache>(LoadingCacheOptions{.load_executor = &pool, .metrics = &registry},
                                          [&](const int&, LoadContext&) -> absl::StatusOr<int> { return ++loads; });
  IntCache* const raw = cache.get();
  std::vector<std::jthread> callers;
  for (int key = 0; key < 5; ++key) {
    callers.emplace_back([raw, key] { EXPECT_EQ(raw->Get(key).status().code(), absl::StatusCode::kCancelled); });
  }
  AwaitWaiters(registry, 5);
  cache.reset();
  callers.clear();
  door.Open();
  std::atomic<bool> drained{false};
  pool.Schedule([&] { drained = true; });
  SpinUntil([&] { return drained.load(); });
  EXPECT_EQ(loads, 0);
}

TEST(CacheDestructionTest, Destructor_RefreshRunning_WaitsForIt) {
  ManualClock clock;
  Door door;
  std::atomic<bool> ended{false};
  auto cache = std::make_unique<IntCache>(
      LoadingCacheOptions{.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = nullptr},
      [&](const int&, LoadContext&) -> absl::StatusOr<int> {
        door.Pass();
        ended = true;
        return 1;
      });
  cache->Put(1, 50);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(**cache->Get(1), 50);
  door.AwaitArrivals(1);
  std::jthread opener([&] { door.Open(); });
  cache.reset();
  EXPECT_TRUE(ended);
}

// The loads were queued by calls that have given up.
TEST(CacheDestructionTest, Destructor_ByTheEndOfALoaderThatDoesNotRun_DoesNotWaitForItself) {
  MetricsRegistry registry;
  ManualClock clock;
  ManualExecutor executor;
  auto cache = std::make_shared<IntCache>(
      LoadingCacheOptions{.clock = &clock, .load_executor = &executor, .metrics = &registry});
  const std::weak_ptr<IntCache> weak = cache;
  std::jthread caller([&] {
    const auto load = [cache](const int&, LoadContext&) -> absl::StatusOr<int> { return 1; };
    EXPECT_EQ(Text(cache->GetOrLoad(1, load, {.timeout = absl::Seconds(1)})), "DEADLINE_EXCEEDED");
  });
  AwaitWaiters(registry, 1);
  clock.Advance(absl::Seconds(2));
  caller.join();
  cache.reset();
  EXPECT_FALSE(weak.expired());
  executor.RunAll();
  EXPECT_TRUE(weak.expired());
}

TEST(CacheDestructionDeathTest, Destructor_ByTheCachesOwnLoader_AbortsWithName) {
  EXPECT_DEATH(
      {
        std::unique_ptr<IntCache> cache;
        cache = std::make_unique<IntCache>(LoadingCacheOptions{.name = "sawn-off", .metrics = nullptr},
                                           [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                                             delete cache.release();
                                             return 1;
                                           });
        (void)cache->Get(1);
      },
      "LoadingCache 'sawn-off' destroyed by its own loader");
}

TEST(CacheDestructionDeathTest, AnyCall_InAForkedChild_AbortsWithNameAndTheDestructorDoesNothing) {
  auto cache = std::make_unique<IntCache>(LoadingCacheOptions{.name = "parents", .metrics = nullptr},
                                          [](const int&, LoadContext&) -> absl::StatusOr<int> { return 1; });
  // gtest's fast death tests fork.
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH((void)cache->Get(1), "LoadingCache 'parents' used in a forked child");
  EXPECT_DEATH(cache->Put(1, 1), "LoadingCache 'parents' used in a forked child");
  EXPECT_DEATH(cache->InvalidateAll(), "LoadingCache 'parents' used in a forked child");
  EXPECT_DEATH((void)cache->size(), "LoadingCache 'parents' used in a forked child");
  EXPECT_EXIT(
      {
        cache.reset();
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
  EXPECT_EQ(**cache->Get(1), 1);
}

// Runs nothing.
class IdleExecutor final : public Executor {
 public:
  void Schedule(Task task) override { tasks.push_back(std::move(task)); }
  std::vector<Task> tasks;
};

// Destroys a cache, whose load_executor is idle, on a thread of its own.
template <typename Cache>
class Ending {
 public:
  // Returns once the cache's gate is closed: a call that waits has been answered.
  explicit Ending(std::unique_ptr<Cache>& cache) {
    std::latch closed(1);
    cache->GetAsync(1'000, inline_executor_, [&](auto answer) {
      EXPECT_TRUE(absl::IsCancelled(answer.status()));
      closed.count_down();
    });
    thread_ = std::jthread([this, &cache] {
      cache.reset();
      ended_ = true;
    });
    closed.wait();
  }
  // Gives the destructor time to do wrong.
  bool EndsEarly() const {
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    return ended_;
  }

 private:
  InlineExecutor inline_executor_;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

// Waits at the calling thread's door, if it has one.
struct DoorEq {
  static inline thread_local Door* door = nullptr;
  bool operator()(int a, int b) const {
    if (door != nullptr) door->Pass();
    return a == b;
  }
};
struct SameHash {
  size_t operator()(int) const { return 1; }
};

// A call that has been seen in its lookup, and finds nothing, is on its way to the mutex.
TEST(DestructionWaitsTest, CallThatLooksWithoutALock_IsWaitedForAndCancelled) {
  using Cache = LoadingCache<int, int, SameHash, DoorEq>;
  IdleExecutor idle;
  auto cache = std::make_unique<Cache>(LoadingCacheOptions{.load_executor = &idle, .metrics = nullptr},
                                       [](const int& key, LoadContext&) -> absl::StatusOr<int> { return key; });
  cache->Put(1, 1);
  Door door;
  std::jthread caller([&, same = cache.get()] {
    DoorEq::door = &door;
    EXPECT_TRUE(absl::IsCancelled(same->Get(2).status()));
  });
  door.AwaitArrivals(1);
  const Ending ending(cache);
  EXPECT_FALSE(ending.EndsEarly());
  door.Open();
  caller.join();
}

// Its destructor waits at a door, where it has one.
struct DoorValue {
  explicit DoorValue(Door* d) : door(d) {}
  DoorValue(DoorValue&& other) noexcept : door(std::exchange(other.door, nullptr)) {}
  ~DoorValue() {
    if (door != nullptr) door->Pass();
  }
  Door* door;
};

TEST(DestructionWaitsTest, InvalidateAllThatDestroysValues_IsWaitedFor) {
  Door door;
  IdleExecutor idle;
  auto cache = std::make_unique<LoadingCache<int, DoorValue>>(
      LoadingCacheOptions{.load_executor = &idle, .metrics = nullptr},
      [](const int&, LoadContext&) -> absl::StatusOr<DoorValue> { return DoorValue(nullptr); });
  cache->Put(1, DoorValue(&door));
  std::jthread clearing([&, same = cache.get()] { same->InvalidateAll(); });
  door.AwaitArrivals(1);
  const Ending ending(cache);
  EXPECT_FALSE(ending.EndsEarly());
  door.Open();
  clearing.join();
}

}  // namespace
}  // namespace stockade::testing
