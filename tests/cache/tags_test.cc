#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

using Tags = std::vector<std::string>;

// Load n returns n with tags_of[n], after it has passed its door; doors from `open_from` on stand open.
struct TaggedCache {
  explicit TaggedCache(LoadingCacheOptions options, std::map<int, Tags> tags, int open_from = 1)
      : tags_of(std::move(tags)),
        cache(With(std::move(options), this), [this](const int&, LoadContext& load) { return Load(load); }) {
    for (int door = open_from; door < 8; ++door) doors[door].Open();
  }

  static LoadingCacheOptions With(LoadingCacheOptions options, TaggedCache* self) {
    options.clock = &self->clock;
    options.metrics = &self->registry;
    return options;
  }

  absl::StatusOr<int> Load(LoadContext& load) {
    const int mine = ++loads;
    if (const auto tags = tags_of.find(mine); tags != tags_of.end()) {
      for (const std::string& tag : tags->second) load.AddTag(tag);
    }
    doors[mine].Pass();
    if (!outcome.ok()) return outcome;
    return mine;
  }

  // A call on a thread of its own, whose answer is to be `wanted`.
  std::jthread Expect(int wanted) {
    return std::jthread([this, wanted] { EXPECT_EQ(**cache.Get(1), wanted); });
  }
  void AwaitFlights(int count) {
    SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == count; });
  }

  ManualClock clock;
  MetricsRegistry registry;
  std::map<int, Tags> tags_of;
  Door doors[8];
  std::atomic<int> loads{0};
  absl::Status outcome;
  IntCache cache;
};

TEST(TagTest, InvalidateTag_PutsAndLoadsInAllShards_RemovesExactlyThoseThatHaveIt) {
  constexpr int kKeys = 1'000;
  IntCache cache({.metrics = nullptr}, [](const int& key, LoadContext& load) -> absl::StatusOr<int> {
    load.AddTag("all");
    load.AddTag("third:" + std::to_string(key % 3));
    return key;
  });
  for (int key = 0; key < kKeys; ++key) {
    if (key % 2 == 0) {
      ASSERT_TRUE(cache.Get(key).ok());
    } else {
      cache.Put(key, key, {.tags = {"third:" + std::to_string(key % 3), "all"}});
    }
  }
  cache.Put(kKeys, 0);  // Has no tag.
  cache.InvalidateTag("third:1");
  int left = 0;
  for (int key = 0; key < kKeys; ++key) {
    EXPECT_EQ(cache.GetIfPresent(key).has_value(), key % 3 != 1) << key;
    left += key % 3 != 1;
  }
  EXPECT_EQ(cache.size(), left + 1);
  cache.InvalidateTag("all");
  EXPECT_EQ(cache.size(), 1);
  EXPECT_EQ(cache.weight(), 1);
  EXPECT_TRUE(cache.GetIfPresent(kKeys).has_value());
}

TEST(TagTest, InvalidateTag_OfNothing_RemovesNothing) {
  IntCache cache({.metrics = nullptr});
  cache.Put(1, 10, {.tags = {"shoes"}});
  for (const char* const tag : {"", "shoe", "shoess", "Shoes", "shoes "}) cache.InvalidateTag(tag);
  EXPECT_EQ(**cache.GetIfPresent(1), 10);
  cache.InvalidateTag("shoes");
  cache.InvalidateTag("shoes");
  EXPECT_EQ(cache.size(), 0);
}

TEST(TagTest, Tags_EmptyRepeatedAndWithNulls_AreTagsLikeOthers) {
  const std::string with_null("a\0b", 3);
  for (const std::string& tag : {std::string(), std::string("shoes"), with_null}) {
    IntCache cache({.metrics = nullptr});
    cache.Put(1, 10, {.tags = {tag, "other", tag, tag}});
    cache.Put(2, 20, {.tags = {tag + "a"}});
    cache.InvalidateTag(tag);
    EXPECT_FALSE(cache.GetIfPresent(1).has_value());
    EXPECT_TRUE(cache.GetIfPresent(2).has_value());
    cache.InvalidateTag("other");
    EXPECT_EQ(cache.size(), 1);
  }
}

TEST(TagTest, InvalidateTag_OfAValueThatWasReplaced_LeavesTheNewOne) {
  TaggedCache tagged({}, {{1, {"new"}}});
  tagged.cache.Put(1, 10, {.tags = {"old"}});
  tagged.cache.Put(1, 20, {.tags = {"newer"}});
  tagged.cache.InvalidateTag("old");
  EXPECT_EQ(**tagged.cache.GetIfPresent(1), 20);
  tagged.cache.InvalidateTag("newer");
  EXPECT_EQ(tagged.cache.size(), 0);

  tagged.cache.Put(1, 30, {.tags = {"old"}});
  tagged.cache.Invalidate(1);
  EXPECT_EQ(**tagged.cache.Get(1), 1);
  tagged.cache.InvalidateTag("old");
  EXPECT_EQ(**tagged.cache.GetIfPresent(1), 1);
}

TEST(TagTest, InvalidateTag_OfEvictedAndExpiredEntries_IsHarmless) {
  ManualClock clock;
  IntCache cache({.max_weight = 4, .ttl = absl::Seconds(10), .clock = &clock, .metrics = nullptr});
  for (int key = 0; key < 100; ++key) cache.Put(key, key, {.tags = {"shoes", std::to_string(key)}});
  for (int key = 0; key < 100; ++key) cache.InvalidateTag(std::to_string(key));
  EXPECT_EQ(cache.size(), 0);
  cache.Put(1, 1, {.tags = {"shoes"}});
  clock.Advance(absl::Seconds(20));
  cache.InvalidateTag("shoes");
  EXPECT_EQ(cache.size(), 0);
}

TEST(TagTest, InvalidateTag_OfAnAbsence_ForgetsIt) {
  TaggedCache tagged({.negative_ttl = absl::Hours(1)}, {{1, {"shoes"}}, {2, {"hats"}}});
  tagged.outcome = absl::NotFoundError("no row");
  EXPECT_EQ(tagged.cache.Get(1).status(), tagged.outcome);
  EXPECT_EQ(tagged.cache.Get(2).status(), tagged.outcome);
  tagged.cache.InvalidateTag("shoes");
  EXPECT_EQ(tagged.cache.size(), 1);
  EXPECT_EQ(tagged.cache.Get(2).status(), tagged.outcome);
  EXPECT_EQ(tagged.loads, 2);
  tagged.outcome = absl::OkStatus();
  EXPECT_EQ(**tagged.cache.Get(1), 3);
}

TEST(TagTest, InvalidateTag_DuringALoadThatWillHaveIt_OldCallersGetTheResultAndLaterOnesANewLoads) {
  TaggedCache tagged({}, {{1, {"hats", "shoes"}}, {2, {"shoes"}}}, 2);
  std::jthread leader = tagged.Expect(1);
  tagged.doors[1].AwaitArrivals(1);
  std::jthread waiter = tagged.Expect(1);
  AwaitWaiters(tagged.registry, 1);
  tagged.cache.InvalidateTag("shoes");
  std::vector<std::jthread> later;
  for (int i = 0; i < 5; ++i) later.push_back(tagged.Expect(2));
  tagged.doors[1].Open();
  leader.join();
  waiter.join();
  later.clear();
  EXPECT_EQ(**tagged.cache.GetIfPresent(1), 2);
  EXPECT_EQ(tagged.loads, 2);
}

TEST(TagTest, InvalidateTag_DuringALoadThatWillHaveIt_ItsResultIsNotStored) {
  for (const bool absent : {false, true}) {
    TaggedCache tagged({.negative_ttl = absl::Hours(1)}, {{1, {"shoes"}}}, 2);
    if (absent) tagged.outcome = absl::NotFoundError("no row");
    std::jthread leader([&] { EXPECT_EQ(tagged.cache.Get(1).ok(), !absent); });
    tagged.doors[1].AwaitArrivals(1);
    tagged.cache.InvalidateTag("shoes");
    tagged.doors[1].Open();
    leader.join();
    EXPECT_EQ(tagged.cache.size(), 0);
    EXPECT_EQ(tagged.cache.Get(1).ok(), !absent);
    EXPECT_EQ(tagged.loads, 2);
  }
}

TEST(TagTest, InvalidateTag_DuringALoadThatWillNotHaveIt_LaterCallersShareItAndItIsStored) {
  TaggedCache tagged({}, {{1, {"hats"}}}, 2);
  std::jthread leader = tagged.Expect(1);
  tagged.doors[1].AwaitArrivals(1);
  tagged.cache.InvalidateTag("shoes");
  std::jthread later = tagged.Expect(1);
  AwaitWaiters(tagged.registry, 1);
  tagged.doors[1].Open();
  leader.join();
  later.join();
  EXPECT_EQ(**tagged.cache.GetIfPresent(1), 1);
  EXPECT_EQ(tagged.loads, 1);
}

// Each call has an invalidation between it and the one before; all that are too late for the first load share a second.
TEST(TagTest, InvalidateTag_AgainAndAgainDuringALoad_OneMoreLoadForAllWhoCameLater) {
  TaggedCache tagged({}, {{1, {"shoes"}}, {2, {"shoes"}}}, 2);
  std::jthread leader = tagged.Expect(1);
  tagged.doors[1].AwaitArrivals(1);
  std::vector<std::jthread> later;
  for (int i = 1; i <= 10; ++i) {
    tagged.cache.InvalidateTag("shoes");
    later.push_back(tagged.Expect(2));
    AwaitWaiters(tagged.registry, i);
  }
  EXPECT_EQ(tagged.loads, 1);
  tagged.doors[1].Open();
  leader.join();
  later.clear();
  EXPECT_EQ(tagged.loads, 2);
}

// Of a load that had begun before: whatever tags its result has, the key was invalidated.
TEST(TagTest, InvalidateTag_OfTheEntryThatALoadIsToReplace_DetachesTheLoad) {
  TaggedCache tagged({.ttl = absl::Seconds(10)}, {}, 2);
  tagged.cache.Put(1, 50, {.tags = {"shoes"}});
  tagged.clock.Advance(absl::Seconds(10));
  std::jthread leader = tagged.Expect(1);
  tagged.doors[1].AwaitArrivals(1);
  tagged.cache.InvalidateTag("shoes");
  EXPECT_EQ(**tagged.cache.Get(1), 2);
  tagged.doors[1].Open();
  leader.join();
  EXPECT_EQ(**tagged.cache.GetIfPresent(1), 2);
}

TEST(TagTest, InvalidateTag_DuringARefreshThatWillHaveIt_LaterCallsGetANewerValue) {
  for (const Tags& old_tags : {Tags{}, Tags{"shoes"}}) {
    TaggedCache tagged({}, {{1, {"shoes"}}}, 2);
    tagged.cache.Put(1, 50, {.tags = old_tags});
    tagged.cache.Refresh(1);
    tagged.doors[1].AwaitArrivals(1);
    tagged.cache.InvalidateTag("shoes");
    tagged.doors[1].Open();
    tagged.AwaitFlights(0);
    EXPECT_EQ(**tagged.cache.Get(1), 2);
  }
}

// A load that has not begun will see what is new.
TEST(TagTest, InvalidateTag_BeforeAQueuedLoadBegins_ItsResultIsStored) {
  ManualExecutor executor;
  TaggedCache tagged({.refresh_executor = &executor}, {{1, {"shoes"}}});
  tagged.cache.Refresh(1);
  tagged.cache.InvalidateTag("shoes");
  EXPECT_EQ(tagged.loads, 0);
  executor.RunAll();
  EXPECT_EQ(**tagged.cache.GetIfPresent(1), 1);
}

TEST(TagTest, Put_DuringALoadWhoseTagWasInvalidated_Stays) {
  TaggedCache tagged({}, {{1, {"shoes"}}}, 2);
  std::jthread leader = tagged.Expect(50);
  tagged.doors[1].AwaitArrivals(1);
  tagged.cache.InvalidateTag("shoes");
  tagged.cache.Put(1, 50, {.tags = {"shoes"}});
  tagged.doors[1].Open();
  leader.join();
  EXPECT_EQ(**tagged.cache.GetIfPresent(1), 50);
  tagged.cache.InvalidateTag("shoes");
  EXPECT_EQ(tagged.cache.size(), 0);
}

}  // namespace
}  // namespace stockade::testing
