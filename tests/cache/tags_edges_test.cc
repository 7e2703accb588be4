// Tags of results that come by other ways than one key's load.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

using IntBatch = BatchLoad<int, int>;

TEST(TagBatchTest, InvalidateTag_DuringGetAll_TakesTheKeysThatHaveItOnly) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache(
      {.metrics = &registry}, {.load_all = [&](const std::vector<int>& keys, IntBatch& batch) -> absl::Status {
        const int mine = ++loads;
        if (mine == 1) door.Pass();
        for (const int key : keys) {
          batch.Add(key, 10 * key + mine,
                    {.tags = key < 3 ? std::vector<std::string>{"shoes", "shoes"} : std::vector<std::string>{}});
        }
        return absl::OkStatus();
      }});
  std::jthread all([&] {
    const std::vector<IntAnswer> answers = cache.GetAll({1, 2, 3});
    EXPECT_EQ(**answers[0], 11);
    EXPECT_EQ(**answers[1], 21);
    EXPECT_EQ(**answers[2], 31);
  });
  door.AwaitArrivals(1);
  cache.InvalidateTag("shoes");
  std::jthread late_tagged([&] { EXPECT_EQ(**cache.Get(1), 12); });
  std::jthread late_other([&] { EXPECT_EQ(**cache.Get(3), 31); });
  AwaitWaiters(registry, 2);
  door.Open();
  all.join();
  late_tagged.join();
  late_other.join();
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(**cache.GetIfPresent(1), 12);
  EXPECT_FALSE(cache.GetIfPresent(2).has_value());
  EXPECT_EQ(**cache.GetIfPresent(3), 31);
}

TEST(TagBatchTest, GetAllThatJoinsAfterInvalidateTag_GetsANewerLoadsValue) {
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.metrics = &registry}, [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
    const int mine = ++loads;
    load.AddTag("shoes");
    if (mine == 1) door.Pass();
    return mine;
  });
  std::jthread leader([&] { EXPECT_EQ(**cache.Get(1), 1); });
  door.AwaitArrivals(1);
  cache.InvalidateTag("shoes");
  std::jthread all([&] { EXPECT_EQ(**cache.GetAll({1})[0], 2); });
  AwaitWaiters(registry, 1);
  door.Open();
  leader.join();
  all.join();
  EXPECT_EQ(loads, 2);
}

TEST(TagBatchTest, Tags_OfABatchLoadersLastWord_Count) {
  IntCache cache({.metrics = nullptr}, {.load_all = [&](const std::vector<int>&, IntBatch& batch) -> absl::Status {
                   EXPECT_TRUE(batch.Add(1, 10, {.tags = {"first"}}));
                   EXPECT_TRUE(batch.Add(1, 11, {.tags = {"last"}}));
                   EXPECT_FALSE(batch.Add(2, 20, {.tags = {"last"}}));
                   return absl::OkStatus();
                 }});
  EXPECT_EQ(**cache.Get(1), 11);
  cache.InvalidateTag("first");
  EXPECT_TRUE(cache.GetIfPresent(1).has_value());
  cache.InvalidateTag("last");
  EXPECT_EQ(cache.size(), 0);
}

// A loader that says NotModified() for everything but its first load, and adds `added`.
struct ConditionalCache {
  explicit ConditionalCache(std::vector<std::string> tags = {})
      : added(std::move(tags)),
        cache({.ttl = absl::Seconds(10), .clock = &clock, .metrics = &registry},
              [this](const int&, ValueLoadContext<int>& load) -> absl::StatusOr<int> {
                ++loads;
                for (const std::string& tag : added) load.AddTag(tag);
                if (load.previous() == nullptr) return 100 + loads;
                door.Pass();
                return LoadContext::NotModified();
              }) {}

  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  std::atomic<int> loads{0};
  std::vector<std::string> added;
  IntCache cache;
};

TEST(TagNotModifiedTest, TheValueKeepsItsTagsAndGetsNewOnes) {
  for (const std::string tag : {"old", "new"}) {
    ConditionalCache conditional({"new"});
    conditional.door.Open();
    conditional.cache.Put(1, 50, {.tags = {"old"}});
    for (int renewal = 0; renewal < 3; ++renewal) {
      conditional.clock.Advance(absl::Seconds(10));
      EXPECT_EQ(**conditional.cache.Get(1), 50);
    }
    conditional.cache.InvalidateTag(tag);
    EXPECT_EQ(conditional.cache.size(), 0);
    EXPECT_EQ(**conditional.cache.Get(1), 104);
  }
}

TEST(TagNotModifiedTest, InvalidateTag_OfTheOldTagDuringTheLoad_TheOldValueIsNotStoredAnew) {
  ConditionalCache conditional;
  conditional.cache.Put(1, 50, {.tags = {"old"}});
  conditional.clock.Advance(absl::Seconds(10));
  std::jthread leader([&] { EXPECT_EQ(**conditional.cache.Get(1), 50); });
  conditional.door.AwaitArrivals(1);
  conditional.cache.InvalidateTag("old");
  EXPECT_EQ(**conditional.cache.Get(1), 102);
  conditional.door.Open();
  leader.join();
  EXPECT_EQ(**conditional.cache.GetIfPresent(1), 102);
}

TEST(TagNotModifiedTest, InvalidateTag_OfATagThatTheLoadAdds_TheOldValueIsNotServedToLaterCalls) {
  ConditionalCache conditional({"new"});
  conditional.cache.Put(1, 50, {.tags = {"old"}});
  conditional.clock.Advance(absl::Seconds(10));
  std::jthread leader([&] { EXPECT_EQ(**conditional.cache.Get(1), 50); });
  conditional.door.AwaitArrivals(1);
  conditional.cache.InvalidateTag("new");
  std::jthread later([&] { EXPECT_EQ(**conditional.cache.Get(1), 102); });
  AwaitWaiters(conditional.registry, 1);
  conditional.door.Open();
  leader.join();
  later.join();
}

// Of an eviction, and of a value that stood in for an error, the tags count as long as the value is there.
TEST(TagTest, InvalidateTag_OfAValueThatStandsInForErrors_EndsThat) {
  ManualClock clock;
  IntCache cache({.ttl = absl::Seconds(10), .stale_if_error = absl::Hours(1), .clock = &clock, .metrics = nullptr},
                 [](const int&, LoadContext&) -> absl::StatusOr<int> { return absl::UnavailableError("down"); });
  cache.Put(1, 50, {.tags = {"shoes"}});
  clock.Advance(absl::Seconds(20));
  EXPECT_EQ(**cache.Get(1), 50);
  cache.InvalidateTag("shoes");
  EXPECT_EQ(cache.Get(1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cache.size(), 0);
}

// More than one step's worth in each shard; what the listener stores is newer than the call.
TEST(TagStepsTest, ListenerStoresUnderTheTagAgain_EachOldOneLeavesOnceAndTheCallEnds) {
  constexpr int kEntries = 10'000;
  const EntryOptions tagged = {.tags = {"shoes"}};
  IntCache* self = nullptr;
  int told = 0;
  IntCache cache({.max_weight = 20'000, .metrics = nullptr},
                 {.on_removal = [&](const int& key, const CacheHandle<int>& value, RemovalCause cause) {
                   ++told;
                   if (cause == RemovalCause::kInvalidated) self->Put(key, *value + 1, tagged);
                 }});
  self = &cache;
  for (int key = 0; key < kEntries; ++key) cache.Put(key, 0, tagged);
  cache.InvalidateTag("shoes");
  EXPECT_EQ(told, kEntries);
  EXPECT_EQ(cache.size(), kEntries);
  for (int key = 0; key < kEntries; ++key) ASSERT_EQ(**cache.GetIfPresent(key), 1) << key;
}

// While one call is between its steps, others replace, evict and invalidate what it is about to take; and whichever
// returns, nothing is left of what was there when it began.
TEST(TagStepsTest, Stress_ManyInvalidateTheTagAtOnce_NothingOldStays) {
  constexpr int kEntries = 10'000;
  IntCache cache({.max_weight = 9'000, .metrics = nullptr});
  std::atomic<int> version{0};
  const int64_t rounds = Scaled(10, 200);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int key = 0; key < kEntries; ++key) cache.Put(key, version, {.tags = {"all", "round"}});
    const int old = version++;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&] {
        cache.InvalidateTag("all");
        for (int key = 0; key < kEntries; ++key) {
          const auto present = cache.GetIfPresent(key);
          ASSERT_TRUE(!present.has_value() || **present != old) << key;
        }
      });
    }
    threads.emplace_back([&] {
      for (int key = 0; key < kEntries; key += 3) cache.Put(key, version, {.tags = {"all"}});
    });
    threads.emplace_back([&] {
      for (int key = 0; key < kEntries; key += 7) cache.Invalidate(key);
    });
  }
}

// A load that began before, of a key that has the tag now but whose result has not: it must not be stored.
TEST(TagStepsTest, LoadUnderWayOfATaggedKey_IsNotStored) {
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.metrics = nullptr}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    const int mine = ++loads;
    if (mine == 1) door.Pass();
    return mine;
  });
  cache.Put(1, 100, {.tags = {"shoes"}});
  cache.Refresh(1);
  door.AwaitArrivals(1);
  cache.InvalidateTag("shoes");
  EXPECT_EQ(**cache.Get(1), 2);
  door.Open();
  EXPECT_EQ(**cache.Get(1), 2);
}

}  // namespace
}  // namespace stockade::testing
