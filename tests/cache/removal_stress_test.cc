#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

constexpr int kStressKeys = 40;
constexpr int kStressThreads = 6;

// Each value has a number of its own, and the world counts the reports of its removal.
struct ListenedCache {
  explicit ListenedCache(int64_t most, LoadingCacheOptions options)
      : told(static_cast<size_t>(most)),
        cache(With(std::move(options)), {.load =
                                             [this](const int& key, ValueLoadContext<int>& load) {
                                               load.AddTag(TagOf(key));
                                               std::this_thread::yield();
                                               return absl::StatusOr<int>(issued++);
                                             },
                                         .on_removal =
                                             [this](const int&, const CacheHandle<int>& value, RemovalCause) {
                                               ++told[static_cast<size_t>(*value)];
                                               ++told_in_all;
                                             }}) {}

  static LoadingCacheOptions With(LoadingCacheOptions options) {
    options.max_weight = 16;
    options.ttl = absl::Milliseconds(2);
    options.ttl_jitter = 1;
    options.metrics = nullptr;
    options.sweep_interval = absl::InfiniteDuration();  // A sweep on the cache's thread tells after it has removed.
    return options;
  }
  static std::string TagOf(int key) { return "tag:" + std::to_string(key % 4); }

  // `step` by several threads, `rounds` times by each.
  template <typename Step>
  void Run(int64_t rounds, Step step) {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kStressThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(static_cast<uint32_t>(thread + 1));
        for (int64_t n = 0; n < rounds; ++n) step(static_cast<int>(random() % kStressKeys), random);
      });
    }
  }

  // All numbers were stored, and have left or are still there.
  void ExpectEachToldOnce() {
    EXPECT_EQ(issued - told_in_all, cache.size());
    cache.InvalidateAll();
    EXPECT_EQ(cache.size(), 0);
    for (int number = 0; number < issued; ++number) {
      ASSERT_EQ(told[static_cast<size_t>(number)], 1) << number << " of " << issued;
    }
  }

  std::vector<std::atomic<int>> told;
  std::atomic<int> issued{0};
  std::atomic<int> told_in_all{0};
  IntCache cache;
};

TEST(RemovalStressTest, PutsAndEveryKindOfRemovalByManyThreads_EachValueIsToldOnce) {
  const int64_t rounds = Scaled(20'000, 500'000);
  ListenedCache world(kStressThreads * rounds, {});
  world.Run(rounds, [&](int key, std::mt19937& random) {
    switch (random() % 16) {
      case 0: world.cache.Invalidate(key); break;
      case 1: world.cache.InvalidateTag(ListenedCache::TagOf(key)); break;
      case 2:
      case 3: (void)world.cache.GetIfPresent(key); break;
      case 4:
        if (random() % 32 == 0) world.cache.InvalidateAll();
        break;
      default: world.cache.Put(key, world.issued++, {.tags = {ListenedCache::TagOf(key), "all"}});
    }
  });
  world.ExpectEachToldOnce();
}

// Nothing keeps what is loaded from being stored here: no invalidation, no Put.
TEST(RemovalStressTest, LoadsAndRefreshesByManyThreads_EachValueIsToldOnce) {
  const int64_t rounds = Scaled(20'000, 500'000);
  std::atomic<int> idle{0};  // Before the pool, whose threads look at it.
  ThreadPool pool(2);
  ListenedCache world(
      2 * kStressThreads * rounds,
      {.refresh_ahead = 0.5, .stale_while_revalidate = absl::Milliseconds(1), .refresh_executor = &pool});
  world.Run(rounds, [&](int key, std::mt19937& random) {
    if (random() % 16 == 0) {
      world.cache.Refresh(key);
    } else {
      EXPECT_TRUE(world.cache.Get(key).ok());
    }
  });
  for (int thread = 0; thread < 2; ++thread) {  // Refreshes that still run end before both threads are here.
    pool.Schedule([&] {
      ++idle;
      SpinUntil([&] { return idle == 2; });
    });
  }
  SpinUntil([&] { return idle == 2; });
  world.ExpectEachToldOnce();
}

// What is loaded while its key is invalidated or put may never have been stored.
TEST(RemovalStressTest, EverythingAtOnce_NoValueIsToldTwice) {
  const int64_t rounds = Scaled(20'000, 500'000);
  ListenedCache world(2 * kStressThreads * rounds, {.refresh_ahead = 0.5});
  world.Run(rounds, [&](int key, std::mt19937& random) {
    switch (random() % 16) {
      case 0: world.cache.Invalidate(key); break;
      case 1: world.cache.InvalidateTag(ListenedCache::TagOf(key)); break;
      case 2: world.cache.Put(key, world.issued++); break;
      case 3: (void)world.cache.GetAll({key, (key + 1) % kStressKeys}); break;
      default: EXPECT_TRUE(world.cache.Get(key).ok());
    }
  });
  for (int number = 0; number < world.issued; ++number) ASSERT_LE(world.told[static_cast<size_t>(number)], 1);
}

}  // namespace
}  // namespace stockade::testing
