#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cache/subject.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

using Tags = std::vector<std::string>;

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

class TagsTest : public ShapeTest {
 protected:
  // Starts a load whose result will have `tags`, and holds it. Later loads have no tags.
  Pending Lead(Subject& subject, const Tags& tags) {
    subject.Hold(1);
    subject.load = [&subject, tags](Load& load) -> absl::StatusOr<int> {
      if (load.number == 1) load.entry.tags = tags;
      if (!subject.outcome.ok()) return subject.outcome;
      return load.number;
    };
    Pending leader = subject.AskLater();
    subject.AwaitLoad(1);
    return leader;
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, TagsTest, ::testing::ValuesIn(Shapes()), NameOf);

TEST_P(TagsTest, InvalidateTag_OfAValueThatWasReplaced_LeavesTheNewOne) {
  Subject subject(GetParam());
  subject.Put(1, 10, {.tags = {"old"}});
  subject.Put(1, 20, {.tags = {"newer"}});
  subject.InvalidateTag("old");
  EXPECT_EQ(subject.Present(), 20);
  subject.InvalidateTag("newer");
  EXPECT_EQ(subject.size(), 0);
  subject.Put(1, 25, {.tags = {"old"}});
  subject.Put(1, 26);
  subject.InvalidateTag("old");
  EXPECT_EQ(subject.Present(), 26);

  subject.Put(1, 30, {.tags = {"old"}});
  subject.Invalidate();
  subject.entry.tags = {"new"};
  EXPECT_EQ(subject.Ask(), 1);
  subject.InvalidateTag("old");
  EXPECT_EQ(subject.Present(), 1);
  subject.InvalidateTag("new");
  EXPECT_EQ(subject.size(), 0);
}

TEST_P(TagsTest, InvalidateTag_OfAnAbsence_ForgetsIt) {
  Subject subject(GetParam(), {.negative_ttl = absl::Hours(1)});
  subject.outcome = absl::NotFoundError("no row");
  subject.entry.tags = {"shoes"};
  EXPECT_EQ(subject.Ask(1), subject.outcome);
  subject.entry.tags = {"hats"};
  EXPECT_EQ(subject.Ask(2), subject.outcome);
  subject.InvalidateTag("shoes");
  EXPECT_EQ(subject.size(), 1);
  EXPECT_EQ(subject.Ask(2), subject.outcome);
  EXPECT_EQ(subject.Loads(), 2);
  subject.outcome = absl::OkStatus();
  EXPECT_EQ(subject.Ask(1), 3);
}

TEST_P(TagsTest, InvalidateTag_DuringALoadThatWillHaveIt_LaterCallersShareANewLoad) {
  Subject subject(GetParam());
  Pending leader = Lead(subject, {"hats", "shoes"});
  Pending waiter = subject.AskLater();
  subject.AwaitParked(2);
  std::vector<Pending> later;
  for (const Asker asker : kAskers) {
    subject.InvalidateTag("shoes");
    later.push_back(subject.AskLaterAs(asker, 1));
    subject.AwaitParked(2 + static_cast<int>(later.size()));
  }
  EXPECT_EQ(subject.Loads(), 1);
  subject.Release(1);
  EXPECT_EQ(leader.get(), 1);
  EXPECT_EQ(waiter.get(), 1);
  for (size_t call = 0; call < later.size(); ++call) {
    if (!IsAsync(kAskers[call])) EXPECT_EQ(later[call].get(), 2);
  }
  subject.background.RunAll();  // The load of GetAsync(), if it is its own.
  for (Pending& call : later) {
    if (call.valid()) EXPECT_EQ(call.get(), 2);
  }
  EXPECT_EQ(subject.Present(), 2);
  EXPECT_EQ(subject.Loads(), 2) << "one more load for all later callers";
}

TEST_P(TagsTest, InvalidateTag_DuringALoadThatWillHaveIt_ItsResultIsNotStored) {
  for (const bool absent : {false, true}) {
    Subject subject(GetParam(), {.negative_ttl = absl::Hours(1)});
    if (absent) subject.outcome = absl::NotFoundError("no row");
    Pending leader = Lead(subject, {"shoes"});
    subject.InvalidateTag("shoes");
    subject.Release(1);
    EXPECT_EQ(leader.get(), absent ? "NOT_FOUND" : "1");
    EXPECT_EQ(subject.size(), 0);
    EXPECT_EQ(subject.Ask(), absent ? "NOT_FOUND" : "2");
    EXPECT_EQ(subject.Loads(), 2);
  }
}

TEST_P(TagsTest, InvalidateTag_DuringALoadThatWillNotHaveIt_LaterCallersShareItAndItIsStored) {
  Subject subject(GetParam());
  Pending leader = Lead(subject, {"hats"});
  subject.InvalidateTag("shoes");
  Pending later = subject.AskLater();
  subject.AwaitParked(2);
  subject.Release(1);
  EXPECT_EQ(leader.get(), 1);
  EXPECT_EQ(later.get(), 1);
  EXPECT_EQ(subject.Present(), 1);
  EXPECT_EQ(subject.Loads(), 1);
}

// The key was invalidated during the load, whatever tags the load's result has.
TEST_P(TagsTest, InvalidateTag_OfTheEntryThatALoadIsToReplace_DetachesTheLoad) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10)});
  subject.Put(1, 50, {.tags = {"shoes"}});
  subject.Advance(absl::Seconds(10));
  Pending leader = Lead(subject, {});
  subject.InvalidateTag("shoes");
  EXPECT_EQ(subject.Ask(), 2);
  subject.Release(1);
  EXPECT_EQ(leader.get(), 1);
  EXPECT_EQ(subject.Present(), 2);
}

TEST_P(TagsTest, InvalidateTag_DuringARefresh_LaterCallsGetANewerValue) {
  for (const Tags& old_tags : {Tags{}, Tags{"shoes"}}) {
    for (const Tags& new_tags : {Tags{}, Tags{"shoes"}}) {
      if (old_tags.empty() && new_tags.empty()) continue;
      Subject subject(GetParam());
      subject.Put(1, 50, {.tags = old_tags});
      subject.Refresh();
      subject.Hold(1);
      subject.load = [&](Load& load) {
        if (load.number == 1) load.entry.tags = new_tags;
        return load.number;
      };
      const std::future<void> refresh = subject.RunBackground();
      subject.AwaitLoad(1);
      subject.InvalidateTag("shoes");
      if (!old_tags.empty()) EXPECT_EQ(subject.Ask(), 2);
      subject.Release(1);
      subject.AwaitNoFlights();
      EXPECT_EQ(subject.Ask(), 2);
    }
  }
}

TEST_P(TagsTest, Put_DuringALoadWhoseTagWasInvalidated_Stays) {
  Subject subject(GetParam());
  Pending leader = Lead(subject, {"shoes"});
  subject.InvalidateTag("shoes");
  subject.Put(1, 50, {.tags = {"shoes"}});
  subject.Release(1);
  EXPECT_EQ(leader.get(), 50);
  EXPECT_EQ(subject.Present(), 50);
  subject.InvalidateTag("shoes");
  EXPECT_EQ(subject.size(), 0);
}

// Loads return NotModified() if the cache has a value, and add the tags `added`.
class TagsOfOldValueTest : public ShapeTest {
 protected:
  void MakeExpired(const Tags& added) {
    subject = std::make_unique<Subject>(GetParam(), LoadingCacheOptions{.ttl = absl::Seconds(10)});
    subject->entry.tags = added;
    subject->load = [](const Load& load) -> absl::StatusOr<int> {
      if (load.previous().has_value()) return LoadTerms::NotModified();
      return 100 + load.number;
    };
    subject->Put(1, 50, {.tags = {"old"}});
    subject->Advance(absl::Seconds(10));
  }
  Pending Lead() {
    subject->Hold(1);
    Pending leader = subject->AskLater();
    subject->AwaitLoad(1);
    return leader;
  }

  std::unique_ptr<Subject> subject;
};
INSTANTIATE_TEST_SUITE_P(Shapes, TagsOfOldValueTest, ::testing::ValuesIn(Shapes()), NameOf);

TEST_P(TagsOfOldValueTest, NotModified_OfATaggedValue_ItKeepsItsTagsAndGetsNewOnes) {
  for (const char* const tag : {"old", "new"}) {
    MakeExpired({"new"});
    for (int renewal = 0; renewal < 3; ++renewal) {
      EXPECT_EQ(subject->Ask(), 50);
      if (renewal < 2) subject->Advance(absl::Seconds(10));
    }
    subject->InvalidateTag(tag);
    EXPECT_EQ(subject->size(), 0);
    EXPECT_EQ(subject->Ask(), 104);
  }
}

TEST_P(TagsOfOldValueTest, InvalidateTag_OfTheOldTagDuringTheLoad_TheOldValueIsNotStoredAgain) {
  MakeExpired({});
  Pending leader = Lead();
  subject->InvalidateTag("old");
  EXPECT_EQ(subject->Ask(), 102);
  subject->Release(1);
  EXPECT_EQ(leader.get(), 50);
  EXPECT_EQ(subject->Present(), 102);
}

TEST_P(TagsOfOldValueTest, InvalidateTag_OfATagThatTheLoadAdds_TheOldValueIsNotServedToLaterCalls) {
  MakeExpired({"new"});
  Pending leader = Lead();
  subject->InvalidateTag("new");
  Pending later = subject->AskLater();
  subject->AwaitParked(2);
  subject->Release(1);
  EXPECT_EQ(leader.get(), 50);
  EXPECT_EQ(later.get(), 102);
}

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

TEST(TagBatchTest, Tags_OfABatchLoadersLastWord_Count) {
  IntCache cache({.negative_ttl = absl::Hours(1), .metrics = nullptr},
                 {.load_all = [&](const std::vector<int>&, IntBatch& batch) -> absl::Status {
                   EXPECT_TRUE(batch.Add(1, 10, {.tags = {"first"}}));
                   EXPECT_TRUE(batch.Add(1, 11, {.tags = {"last"}}));
                   EXPECT_FALSE(batch.Add(2, 20, {.tags = {"last"}}));
                   EXPECT_TRUE(batch.Add(3, 30, {.tags = {"first"}}));
                   EXPECT_TRUE(batch.Fail(3, absl::NotFoundError("none"), {.tags = {"last"}}));
                   return absl::OkStatus();
                 }});
  EXPECT_EQ(TextsOf(cache.GetAll({1, 3})), (Texts{"11", "NOT_FOUND"}));
  cache.InvalidateTag("first");
  EXPECT_TRUE(cache.GetIfPresent(1).has_value());
  EXPECT_EQ(cache.size(), 2);
  cache.InvalidateTag("last");
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

}  // namespace
}  // namespace stockade::testing
