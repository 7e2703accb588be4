#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// A Put over a key replaces a small value in place, while hits copy it.

struct Twins {
  uint64_t one = 0;
  uint64_t other = 0;

  bool alike() const { return other == ~one; }
};
Twins TwinsOf(uint64_t n) { return {n, ~n}; }

TEST(OverwriteTest, Put_OverAnExpiredValue_CountsAnExpiry) {
  ManualClock clock;
  MetricsRegistry registry;
  IntCache cache({.ttl = absl::Seconds(10), .clock = &clock, .metrics = &registry});
  cache.Put(1, 10);
  cache.Put(1, 11);
  EXPECT_EQ(Metric(registry, "stockade_cache_evictions_total", "expired"), 0);
  clock.Advance(absl::Seconds(10));
  cache.Put(1, 12);
  EXPECT_EQ(Metric(registry, "stockade_cache_evictions_total", "expired"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_entries"), 1);
  EXPECT_EQ(Metric(registry, "stockade_cache_weight"), 1);
  EXPECT_EQ(**cache.GetIfPresent(1), 12);
}

TEST(OverwriteTest, Put_WithAndWithoutTags_HasThoseOfTheLastOne) {
  IntCache cache({});
  cache.Put(1, 10, {.tags = {"old"}});
  cache.Put(1, 11);
  cache.InvalidateTag("old");
  EXPECT_EQ(**cache.GetIfPresent(1), 11);
  cache.Put(1, 12, {.tags = {"new"}});
  EXPECT_EQ(**cache.GetIfPresent(1), 12);
  cache.InvalidateTag("new");
  EXPECT_FALSE(cache.GetIfPresent(1).has_value());
}

TEST(OverwriteTest, Put_WithAWeigher_WeighsTheNewValue) {
  IntCache cache({.max_weight = 100}, {.weigh = [](const int&, const int& value) { return value; }});
  cache.Put(1, 10);
  cache.Put(1, 30);
  EXPECT_EQ(cache.weight(), 30);
  cache.Put(1, 101);
  EXPECT_FALSE(cache.GetIfPresent(1).has_value());
  EXPECT_EQ(cache.weight(), 0);
}

// The handle has its copy.
TEST(OverwriteTest, Put_OverAValueThatAHandleHas_LeavesTheHandleAlone) {
  IntCache cache({});
  cache.Put(1, 10);
  const CacheHandle<int> handle = *cache.GetIfPresent(1);
  cache.Put(1, 11);
  EXPECT_EQ(*handle, 10);
}

TEST(OverwriteTest, Put_InAStrictCache_IsSeen) {
  IntCache cache({.strict = true});
  cache.Put(1, 10);
  cache.Put(1, 11);
  EXPECT_EQ(**cache.GetIfPresent(1), 11);
}

struct Odd {
  explicit Odd(char c) : first(c), last(c) {}  // No default constructor, and padding.

  char first;
  alignas(8) char last;
};
static_assert(sizeof(Odd) == 16);

TEST(OverwriteTest, Put_OfAnyTriviallyCopyableValue_IsReadBack) {
  LoadingCache<std::string, Odd> odd({});
  LoadingCache<int, char> chars({});
  LoadingCache<int, std::optional<int>> optional({});
  for (const char c : {'a', 'b', 'c'}) {
    odd.Put("key", Odd(c));
    EXPECT_EQ((*odd.GetIfPresent("key"))->last, c);
    chars.Put(1, c);
    EXPECT_EQ(**chars.GetIfPresent(1), c);
    optional.Put(1, c == 'b' ? std::nullopt : std::optional<int>(c));
    EXPECT_EQ(**optional.GetIfPresent(1), c == 'b' ? std::nullopt : std::optional<int>(c));
  }
}

// Writers of some keys, readers that copy them, and a thread that invalidates them: no copy is torn, and what a key has
// never goes back for a reader of one writer's key.
TEST(OverwriteTest, Put_WhileOthersRead_TearsNoValue) {
  constexpr uint64_t kPuts = 20'000;
  LoadingCache<int, Twins> cache({.max_weight = 1000});
  std::atomic<int> writing{2};
  std::vector<std::thread> threads;
  for (int key = 0; key < 2; ++key) {
    threads.emplace_back([&, key] {
      for (uint64_t n = 1; n <= kPuts; ++n) cache.Put(key, TwinsOf(n));
      --writing;
    });
  }
  threads.emplace_back([&] {
    while (writing > 0) {
      cache.Invalidate(0);
      std::this_thread::yield();
    }
  });
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      std::vector<uint64_t> last(2);
      while (writing > 0) {
        for (int key = 0; key < 2; ++key) {
          const auto twins = cache.GetIfPresent(key);
          if (!twins.has_value()) continue;
          ASSERT_TRUE((*twins)->alike()) << (*twins)->one << " " << (*twins)->other;
          ASSERT_GE((*twins)->one, last[key]);
          last[key] = (*twins)->one;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*cache.GetIfPresent(1))->one, kPuts);
}

}  // namespace
}  // namespace stockade::testing
