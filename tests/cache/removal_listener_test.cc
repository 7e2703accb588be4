// What a removal listener may do.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cache/test_cache.h"
#include "stockade/base/log.h"

namespace stockade::testing {
namespace {

// A cache whose listener is what the test sets; loads return the key.
struct ListenedCache {
  explicit ListenedCache(LoadingCacheOptions options = {})
      : cache(Without(std::move(options)),
              {.load = [](const int& key, ValueLoadContext<int>&) -> absl::StatusOr<int> { return key; },
               .on_removal = [this](const int& key, const CacheHandle<int>& value,
                                    RemovalCause cause) { listener(key, value, cause); }}) {}

  static LoadingCacheOptions Without(LoadingCacheOptions options) {
    options.metrics = nullptr;
    return options;
  }

  IntCache::RemovalListener listener = [](const int&, const CacheHandle<int>&, RemovalCause) {};
  IntCache cache;
};

TEST(RemovalListenerTest, Listener_CallsTheCacheForItsOwnKeyAndOthers_Works) {
  ListenedCache listened;
  int told = 0;
  listened.listener = [&](const int& key, const CacheHandle<int>& value, RemovalCause) {
    if (++told > 1) return;
    EXPECT_EQ(*value, 100);
    EXPECT_EQ(**listened.cache.Get(key), key);
    EXPECT_EQ(**listened.cache.Get(key + 1), key + 1);
    listened.cache.Put(key, 200);
    listened.cache.Invalidate(key + 1);
    listened.cache.InvalidateTag("none");
    listened.cache.Refresh(key + 2);
    EXPECT_EQ(**listened.cache.GetIfPresent(key), 200);
    EXPECT_EQ(told, 1);  // The removals made here are reported after this call has returned.
  };
  listened.cache.Put(1, 100);
  listened.cache.Invalidate(1);
  EXPECT_EQ(told, 3);  // Of the loaded 1 that 200 replaced, and of the invalidated 2.
  EXPECT_EQ(**listened.cache.GetIfPresent(1), 200);
}

TEST(RemovalListenerTest, Listener_InvalidatesAll_EachIsToldOnce) {
  ListenedCache listened;
  std::vector<int> told;
  listened.listener = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
    told.push_back(key);
    listened.cache.InvalidateAll();
  };
  for (int key = 0; key < 100; ++key) listened.cache.Put(key, key);
  listened.cache.Invalidate(7);
  std::sort(told.begin(), told.end());
  ASSERT_EQ(told.size(), 100U);
  for (int key = 0; key < 100; ++key) EXPECT_EQ(told[static_cast<size_t>(key)], key);
}

TEST(RemovalListenerTest, Listener_RemovesTheNextOneEachTime_NeedsNoMoreStack) {
  constexpr int kRemovals = 100'000;
  ListenedCache listened({.max_weight = 1});
  int told = 0;
  int depth = 0;
  listened.listener = [&](const int& key, const CacheHandle<int>& value, RemovalCause cause) {
    EXPECT_EQ(++depth, 1);
    EXPECT_EQ(key, told);
    EXPECT_EQ(*value, told);
    EXPECT_EQ(cause, RemovalCause::kSize);
    if (++told < kRemovals) listened.cache.Put(told + 1, told + 1);
    --depth;
  };
  listened.cache.Put(0, 0);
  listened.cache.Put(1, 1);
  EXPECT_EQ(told, kRemovals);
  EXPECT_EQ(listened.cache.size(), 1);
}

// Two caches whose listeners remove from each other.
TEST(RemovalListenerTest, Listeners_OfTwoCaches_RemoveFromEachOther) {
  ListenedCache a({.max_weight = 1});
  ListenedCache b({.max_weight = 1});
  int told = 0;
  a.listener = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
    if (++told < 1'000) b.cache.Put(key + 1, 0);
  };
  b.listener = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
    if (++told < 1'000) a.cache.Put(key + 1, 0);
  };
  b.cache.Put(0, 0);
  a.cache.Put(0, 0);
  a.cache.Put(1, 0);
  EXPECT_GE(told, 2);
  EXPECT_EQ(a.cache.size(), 1);
  EXPECT_EQ(b.cache.size(), 1);
}

TEST(RemovalListenerTest, Listener_Blocks_HoldsUpNobodyElse) {
  ListenedCache listened;
  Door door;
  std::atomic<int> told{0};
  listened.listener = [&](const int&, const CacheHandle<int>&, RemovalCause) {
    if (++told == 1) door.Pass();
  };
  for (int key = 0; key < 200; ++key) listened.cache.Put(key, key);
  std::jthread blocked([&] { listened.cache.Invalidate(0); });
  door.AwaitArrivals(1);
  EXPECT_EQ(**listened.cache.Get(0), 0);
  for (int key = 0; key < 200; ++key) {  // Of every shard.
    listened.cache.Put(key, key + 1);
    EXPECT_EQ(**listened.cache.GetIfPresent(key), key + 1);
  }
  listened.cache.InvalidateAll();
  EXPECT_EQ(told, 401);
  door.Open();
}

TEST(RemovalListenerTest, Listener_Throws_IsLoggedAndTheCacheGoesOn) {
  ListenedCache listened({.name = "touchy", .max_weight = 2});
  std::mutex mutex;
  std::vector<std::string> logged;
  SetLogSink([&](LogSeverity severity, std::string_view message) {
    const std::lock_guard lock(mutex);
    if (severity == LogSeverity::kError) logged.emplace_back(message);
  });
  int told = 0;
  listened.listener = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
    ++told;
    if (key == 0) throw std::runtime_error("no such subscriber");
    if (key == 1) throw 42;
  };
  for (int key = 0; key < 2; ++key) listened.cache.Put(key, key);
  listened.cache.InvalidateAll();
  EXPECT_EQ(told, 2);
  listened.cache.Put(2, 20);
  listened.cache.Invalidate(2);
  EXPECT_EQ(told, 3);
  EXPECT_EQ(**listened.cache.Get(2), 2);
  SetLogSink({});
  ASSERT_EQ(logged.size(), 2U);
  for (const std::string& line : logged) EXPECT_NE(line.find("touchy"), line.npos) << line;
  EXPECT_NE((logged[0] + logged[1]).find("no such subscriber"), std::string::npos);
}

// In the loader of another key, and by a refresh in the background.
TEST(RemovalListenerTest, Listener_OfWhatALoaderRemoved_MayLoad) {
  ManualClock clock;
  std::atomic<int> told{0};
  IntCache* self = nullptr;
  IntCache cache({.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = nullptr},
                 {.load = [&](const int& key, ValueLoadContext<int>&) -> absl::StatusOr<int> {
                    if (key == 1) self->Invalidate(2);
                    return key;
                  },
                  .on_removal =
                      [&](const int& key, const CacheHandle<int>&, RemovalCause) {
                        EXPECT_EQ(**self->Get(key + 10), key + 10);
                        ++told;
                      }});
  self = &cache;
  cache.Put(2, 20);
  EXPECT_EQ(**cache.Get(1), 1);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(cache.GetIfPresent(12).has_value());
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(**cache.Get(1), 1);
  SpinUntil([&] { return told == 2; });
  EXPECT_TRUE(cache.GetIfPresent(11).has_value());
}

TEST(RemovalListenerDeathTest, Destructor_ByTheListener_AbortsWithName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::unique_ptr<IntCache> cache;
        cache = std::make_unique<IntCache>(
            LoadingCacheOptions{.name = "sawn-off", .metrics = nullptr},
            IntCache::Callbacks{
                .on_removal = [&](const int&, const CacheHandle<int>&, RemovalCause) { delete cache.release(); }});
        cache->Put(1, 1);
        cache->Invalidate(1);
      },
      "LoadingCache 'sawn-off' destroyed by its own listener");
}

}  // namespace
}  // namespace stockade::testing
