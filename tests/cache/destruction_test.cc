#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

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

// Waits at a door, where there is one, when it is told of.
struct DoorEq {
  static inline Door* door = nullptr;
  bool operator()(int a, int b) const {
    if (door != nullptr) door->Pass();
    return a == b;
  }
};
struct SameHash {
  size_t operator()(int) const { return 1; }
};

// A call that has been seen in its lookup, and finds nothing, is on its way to the mutex.
TEST(DestructionWaitsTest, CallThatLooksWithoutALock_IsWaitedFor) {
  using Cache = LoadingCache<int, int, SameHash, DoorEq>;
  auto cache = std::make_unique<Cache>(LoadingCacheOptions{.metrics = nullptr},
                                       [](const int& key, LoadContext&) -> absl::StatusOr<int> { return key; });
  cache->Put(1, 1);
  Door door;
  DoorEq::door = &door;
  Cache& same = *cache;
  std::jthread caller([&] {
    const auto answer = same.Get(2);  // Loaded, where the destructor came to its gate later than this call.
    EXPECT_TRUE(answer.ok() ? **answer == 2 : absl::IsCancelled(answer.status())) << answer.status();
  });
  door.AwaitArrivals(1);
  std::atomic<bool> ended = false;
  std::jthread ending([&] {
    cache.reset();
    ended = true;
  });
  for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
  EXPECT_FALSE(ended);
  DoorEq::door = nullptr;
  door.Open();
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
  auto cache = std::make_unique<LoadingCache<int, DoorValue>>(LoadingCacheOptions{.metrics = nullptr});
  cache->Put(1, DoorValue(&door));
  std::jthread clearing([&, same = cache.get()] { same->InvalidateAll(); });
  door.AwaitArrivals(1);
  std::atomic<bool> ended = false;
  std::jthread ending([&] {
    cache.reset();
    ended = true;
  });
  for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
  EXPECT_FALSE(ended);
  door.Open();
}

}  // namespace
}  // namespace stockade::testing
