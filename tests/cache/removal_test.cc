#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

struct Removal {
  int key;
  int value;
  RemovalCause cause;

  bool operator==(const Removal&) const = default;
};

void PrintTo(const Removal& removal, std::ostream* out) {
  *out << removal.key << ":" << removal.value << " cause " << static_cast<int>(removal.cause);
}

using Removals = std::vector<Removal>;

// Values live for 10 s. Load n returns n, or what `outcome` says.
struct ToldCache {
  explicit ToldCache(LoadingCacheOptions options = {})
      : cache(With(std::move(options), this),
              {.load = [this](const int&, ValueLoadContext<int>& load) -> absl::StatusOr<int> {
                 ++loads;
                 if (loader_ttl.has_value()) load.set_ttl(*loader_ttl);
                 if (not_modified && load.previous() != nullptr) return LoadContext::NotModified();
                 if (!outcome.ok()) return outcome;
                 return loads;
               },
               .on_removal =
                   [this](const int& key, const CacheHandle<int>& value, RemovalCause cause) {
                     told.push_back({key, *value, cause});
                   }}) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, ToldCache* self) {
    options.ttl = absl::Seconds(10);
    options.clock = &self->clock;
    options.refresh_executor = &self->executor;
    options.metrics = nullptr;
    return options;
  }
  Removals Told() { return std::exchange(told, {}); }

  ManualClock clock;
  InlineExecutor executor;
  int loads = 0;
  bool not_modified = false;
  std::optional<absl::Duration> loader_ttl;
  absl::Status outcome;
  Removals told;
  IntCache cache;
};

TEST(RemovalTest, Invalidated_ByEachWay_IsToldOnce) {
  ToldCache told;
  told.cache.Put(1, 10);
  EXPECT_EQ(told.Told(), Removals());
  told.cache.Invalidate(1);
  told.cache.Invalidate(1);
  EXPECT_EQ(told.Told(), (Removals{{1, 10, RemovalCause::kInvalidated}}));

  told.cache.Put(1, 20, {.tags = {"a", "b", "a"}});
  told.cache.InvalidateTag("a");
  told.cache.InvalidateTag("b");
  EXPECT_EQ(told.Told(), (Removals{{1, 20, RemovalCause::kInvalidated}}));

  told.cache.Put(1, 30);
  told.cache.Put(2, 40);
  told.cache.InvalidateAll();
  EXPECT_EQ(told.Told().size(), 2U);

  told.cache.Put(1, 50);
  EXPECT_TRUE(told.cache.UpdateThrough(1, [] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(told.Told(), (Removals{{1, 50, RemovalCause::kInvalidated}}));
}

TEST(RemovalTest, Replaced_ByPutRefreshOrAbsence_IsToldOnce) {
  ToldCache told({.negative_ttl = absl::Hours(1)});
  for (const int value : {10, 11, 12}) told.cache.Put(1, value);
  EXPECT_EQ(told.Told(), (Removals{{1, 10, RemovalCause::kReplaced}, {1, 11, RemovalCause::kReplaced}}));
  told.cache.Refresh(1);
  EXPECT_EQ(told.Told(), (Removals{{1, 12, RemovalCause::kReplaced}}));
  told.outcome = absl::NotFoundError("no row");
  told.cache.Refresh(1);
  EXPECT_EQ(told.Told(), (Removals{{1, 1, RemovalCause::kReplaced}}));
  EXPECT_EQ(told.cache.size(), 1);
}

TEST(RemovalTest, Expired_ReplacedOrEvicted_IsToldOnceWithThatCause) {
  ToldCache told({.max_weight = 1});
  told.cache.Put(1, 10);
  told.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(told.Told(), Removals());  // Nothing happens by itself.
  EXPECT_EQ(**told.cache.Get(1), 1);
  EXPECT_EQ(told.Told(), (Removals{{1, 10, RemovalCause::kExpired}}));
  told.clock.Advance(absl::Seconds(10));
  told.cache.Put(2, 20);
  EXPECT_EQ(told.Told(), (Removals{{1, 1, RemovalCause::kExpired}}));
  told.clock.Advance(absl::Seconds(10));
  told.cache.Put(2, 21);
  EXPECT_EQ(told.Told(), (Removals{{2, 20, RemovalCause::kExpired}}));
}

TEST(RemovalTest, Expired_AskedFor_IsToldOnceWithThatCause) {
  ToldCache told;
  told.cache.Put(1, 10);
  told.clock.Advance(absl::Seconds(10));
  EXPECT_FALSE(told.cache.GetIfPresent(1).has_value());
  EXPECT_FALSE(told.cache.GetIfPresent(1).has_value());
  EXPECT_EQ(told.Told(), (Removals{{1, 10, RemovalCause::kExpired}}));
  told.cache.Put(1, 20);
  told.clock.Advance(absl::Seconds(10));
  told.outcome = absl::UnavailableError("down");
  EXPECT_FALSE(told.cache.Get(1).ok());
  EXPECT_FALSE(told.cache.Get(1).ok());
  EXPECT_EQ(told.Told(), (Removals{{1, 20, RemovalCause::kExpired}}));
}

TEST(RemovalTest, Size_TheOneThatWentIsTold) {
  ToldCache told({.max_weight = 3});
  for (int key = 0; key < 10; ++key) told.cache.Put(key, 10 * key);
  const Removals removals = told.Told();
  EXPECT_EQ(removals.size(), 7U);
  for (const Removal& removal : removals) {
    EXPECT_EQ(removal.value, 10 * removal.key);
    EXPECT_EQ(removal.cause, RemovalCause::kSize);
    EXPECT_FALSE(told.cache.GetIfPresent(removal.key).has_value());
  }
}

TEST(RemovalTest, Absences_AreNotTold) {
  ToldCache told({.max_weight = 2, .negative_ttl = absl::Seconds(1)});
  told.outcome = absl::NotFoundError("no row");
  for (int key = 0; key < 10; ++key) EXPECT_FALSE(told.cache.Get(key).ok());
  told.clock.Advance(absl::Seconds(1));
  EXPECT_FALSE(told.cache.Get(9).ok());
  told.cache.Put(9, 90);
  EXPECT_FALSE(told.cache.Get(8).ok());
  told.cache.Invalidate(8);
  EXPECT_EQ(told.Told(), Removals());
}

TEST(RemovalTest, ValuesThatWereNeverStored_AreNotTold) {
  ToldCache told;
  told.cache.Put(1, 10, absl::ZeroDuration());
  told.cache.Invalidate(1);
  EXPECT_EQ(told.Told(), Removals());
  told.cache.Put(1, 20);
  told.cache.Put(1, 30, absl::ZeroDuration());
  ASSERT_EQ(told.told.size(), 1U);
  EXPECT_EQ(told.told[0].value, 20);
}

// The value that was there is still there, and leaves once.
TEST(RemovalTest, ValuesThatTheLoaderFoundUnmodified_AreToldWhenTheyLeave) {
  ToldCache told;
  told.not_modified = true;
  told.cache.Put(1, 10);
  told.cache.Refresh(1);
  for (int renewal = 0; renewal < 3; ++renewal) {
    EXPECT_EQ(told.Told(), Removals());
    told.clock.Advance(absl::Seconds(10));
    EXPECT_EQ(**told.cache.Get(1), 10);
  }
  EXPECT_EQ(told.Told(), Removals());
  EXPECT_EQ(told.cache.weight(), 1);
  told.cache.Put(1, 11);
  EXPECT_EQ(told.Told(), (Removals{{1, 10, RemovalCause::kReplaced}}));
  told.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**told.cache.Get(1), 11);
  EXPECT_EQ(told.Told(), Removals());
  told.cache.Invalidate(1);
  EXPECT_EQ(told.Told(), (Removals{{1, 11, RemovalCause::kInvalidated}}));

  told.cache.Put(1, 20);
  told.clock.Advance(absl::Seconds(10));
  told.loader_ttl = absl::ZeroDuration();
  EXPECT_EQ(**told.cache.Get(1), 20);  // Still good, and not stored again.
  EXPECT_EQ(told.Told(), (Removals{{1, 20, RemovalCause::kExpired}}));
  EXPECT_EQ(told.cache.size(), 0);
}

TEST(RemovalTest, Destruction_OfAFullCache_IsNotTold) {
  int told = 0;
  {
    IntCache cache({.metrics = nullptr},
                   {.on_removal = [&](const int&, const CacheHandle<int>&, RemovalCause) { ++told; }});
    for (int key = 0; key < 10; ++key) cache.Put(key, key);
  }
  EXPECT_EQ(told, 0);
}

TEST(RemovalTest, Handles_KeptByTheListener_OutliveTheCache) {
  std::vector<CacheHandle<std::string>> kept;
  {
    LoadingCache<int, std::string> cache({.max_weight = 2, .metrics = nullptr},
                                         {.on_removal = [&](const int&, const CacheHandle<std::string>& value,
                                                            RemovalCause) { kept.push_back(value); }});
    for (int key = 0; key < 5; ++key) cache.Put(key, "value " + std::to_string(key));
  }
  ASSERT_EQ(kept.size(), 3U);
  for (int key = 1; key < 4; ++key) {  // 0 went to the main queue.
    EXPECT_EQ(*kept[static_cast<size_t>(key - 1)], "value " + std::to_string(key));
  }
}

TEST(RemovalTest, Told_AfterTheRemoval_ByTheThreadThatRemoved) {
  IntCache* self = nullptr;
  std::thread::id by;
  IntCache cache({.metrics = nullptr}, {.on_removal = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
                   by = std::this_thread::get_id();
                   EXPECT_FALSE(self->GetIfPresent(key).has_value());
                   EXPECT_EQ(self->size(), 0);
                 }});
  self = &cache;
  cache.Put(1, 10);
  std::jthread other([&] { cache.Invalidate(1); });
  const std::thread::id wanted = other.get_id();
  other.join();
  EXPECT_EQ(by, wanted);
}

}  // namespace
}  // namespace stockade::testing
