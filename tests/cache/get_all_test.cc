#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/test_cache.h"

// The batch of a GetAll(), its loader and its deadline, and calls of GetAll() within loaders. answers_test.cc has the
// tests that are the same for one key.

namespace stockade::testing {
namespace {

using Batches = std::vector<std::vector<int>>;

TEST(GetAllTest, GetAll_SomeAreMissing_OneBatchOfThose) {
  BatchCache batch({});
  batch.cache.Put(2, 99);
  EXPECT_EQ(batch.GetAll({3, 2, 1}), (Texts{"30", "99", "10"}));
  EXPECT_EQ(batch.GetAll({1, 2, 3}), (Texts{"10", "99", "30"}));
  EXPECT_EQ(batch.batches(), (Batches{{3, 1}}));
  EXPECT_EQ(Requests(batch.registry, "miss"), 2);
  EXPECT_EQ(Requests(batch.registry, "hit"), 4);
  EXPECT_EQ(Metric(batch.registry, "stockade_cache_loads_total", "success"), 1);
  EXPECT_EQ(Metric(batch.registry, "stockade_cache_flights"), 0);
}

TEST(GetAllTest, GetAll_RepeatedKeys_LookedUpOnceAndAnsweredInTheirOrder) {
  BatchCache batch({});
  EXPECT_EQ(batch.GetAll({3, 1, 3, 3, 1}), (Texts{"30", "10", "30", "30", "10"}));
  EXPECT_EQ(batch.batches(), (Batches{{3, 1}}));
  EXPECT_EQ(Requests(batch.registry, "miss"), 2);
}

TEST(GetAllTest, GetAll_RepeatedHits_CountOnceAndShareOneValue) {
  MetricsRegistry registry;
  LoadingCache<int, std::string> cache(
      {.metrics = &registry}, [](const int& key) -> absl::StatusOr<std::string> { return std::to_string(key); });
  cache.Put(1, "one");
  const auto answers = cache.GetAll({1, 2, 1, 2, 1});
  for (const size_t again : {2, 4}) EXPECT_EQ(answers[again]->get(), answers[0]->get());
  EXPECT_EQ(answers[3]->get(), answers[1]->get());
  EXPECT_EQ(Requests(registry, "hit"), 1);
  EXPECT_EQ(Requests(registry, "miss"), 1);
}

// Of which many keys have one.
struct FewHashes {
  size_t operator()(int key) const { return static_cast<size_t>(key % 3); }
};

TEST(GetAllTest, GetAll_AnyKeysInAnyOrder_EachHasItsValueAndEachDistinctOneCountsOnce) {
  std::mt19937 random(1);
  for (const int keys : {1, 2, 3, 4, 7, 8, 9, 63, 64, 65, 300}) {
    MetricsRegistry registry;
    LoadingCache<int, int, FewHashes> cache({.metrics = &registry},
                                            [](const int& key) -> absl::StatusOr<int> { return 10 * key; });
    const auto below = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
    for (int key = 0; key < keys; key += 2) cache.Put(key, 10 * key);
    std::vector<int> asked;
    for (int i = 0; i < keys; ++i) asked.push_back(below(keys));
    const auto answers = cache.GetAll(asked);
    ASSERT_EQ(answers.size(), asked.size());
    for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(**answers[i], 10 * asked[i]) << keys;
    const std::set<int> distinct(asked.begin(), asked.end());
    const auto is_odd = [](int key) { return key % 2 == 1; };
    const auto odd = static_cast<double>(std::ranges::count_if(distinct, is_odd));
    EXPECT_EQ(Requests(registry, "miss"), odd);
    EXPECT_EQ(Requests(registry, "hit"), static_cast<double>(distinct.size()) - odd);
  }
}

TEST(GetAllTest, GetAll_NoKeys_NoAnswerAndNoLoad) {
  BatchCache batch({});
  EXPECT_TRUE(batch.cache.GetAll({}).empty());
  EXPECT_TRUE(batch.batches().empty());
}

TEST(GetAllTest, GetAll_LoaderDoesNotMentionAKey_AbsentForNegativeTtlAndTheOthersStored) {
  ManualClock clock;
  BatchCache batch({.negative_ttl = absl::Seconds(10), .clock = &clock}, [](const std::vector<int>&, IntBatch& found) {
    found.Add(1, 10);
    return absl::OkStatus();
  });
  EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "NOT_FOUND"}));
  EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "NOT_FOUND"}));
  EXPECT_EQ(Text(batch.cache.Get(2)), "NOT_FOUND");
  EXPECT_EQ(batch.batches().size(), 1u);
  EXPECT_EQ(Requests(batch.registry, "negative"), 2);
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "NOT_FOUND"}));
  EXPECT_EQ(batch.batches(), (Batches{{1, 2}, {2}}));
}

TEST(GetAllTest, GetAll_AbsentWithoutANegativeTtl_LoadedAgain) {
  BatchCache batch({}, [](const std::vector<int>&, IntBatch&) { return absl::OkStatus(); });
  EXPECT_EQ(batch.GetAll({1}), Texts{"NOT_FOUND"});
  EXPECT_EQ(batch.GetAll({1}), Texts{"NOT_FOUND"});
  EXPECT_EQ(batch.batches().size(), 2u);
}

TEST(GetAllTest, Fail_OfKeys_IsForThoseOnlyAndTheLastWordCounts) {
  BatchCache batch({.negative_ttl = absl::Seconds(10)}, [](const std::vector<int>&, IntBatch& found) {
    found.Fail(1, absl::UnavailableError("shard away"));
    found.Fail(2, absl::NotFoundError(""));
    found.Fail(3, absl::OkStatus());
    found.Fail(4, absl::UnavailableError(""));
    found.Add(4, 40);
    found.Add(5, 50);
    found.Fail(5, absl::AbortedError(""));
    found.Add(6, 60);
    found.Add(6, 61);
    return absl::OkStatus();
  });
  const std::vector<int> keys{1, 2, 3, 4, 5, 6};
  const Texts answers{"UNAVAILABLE", "NOT_FOUND", "INTERNAL", "40", "ABORTED", "61"};
  EXPECT_EQ(batch.GetAll(keys), answers);
  EXPECT_EQ(batch.GetAll(keys), answers);
  EXPECT_EQ(batch.batches(), (Batches{keys, {1, 3, 5}})) << "values and absences are kept, errors are not";
}

class HalfBatchTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ReturnsOrThrows, HalfBatchTest, ::testing::Bool());

TEST_P(HalfBatchTest, GetAll_LoaderFailsAfterSomeKeys_TheseAreStoredAndTheOthersGetTheError) {
  BatchCache batch({.negative_ttl = absl::Hours(1)}, [](const std::vector<int>& keys, IntBatch& found) {
    found.Add(keys[0], 10 * keys[0]);
    if (GetParam()) throw std::runtime_error("lost the connection");
    return absl::UnavailableError("lost the connection");
  });
  const std::string error = GetParam() ? "INTERNAL" : "UNAVAILABLE";
  const std::vector<IntAnswer> answers = batch.cache.GetAll({1, 2, 3});
  EXPECT_EQ(TextsOf(answers), (Texts{"10", error, error}));
  EXPECT_NE(answers[2].status().ToString().find("lost the connection"), std::string::npos);
  EXPECT_EQ(batch.GetAll({1, 2, 3}), (Texts{"10", "20", error}));
  EXPECT_EQ(batch.batches(), (Batches{{1, 2, 3}, {2, 3}}));
  EXPECT_EQ(Metric(batch.registry, "stockade_cache_loads_total", "error"), 2);
}

TEST(GetAllTest, Add_OfAKeyThatWasNotAskedFor_FalseAndNothingStored) {
  BatchCache batch({.negative_ttl = absl::Hours(1)}, [](const std::vector<int>& keys, IntBatch& found) {
    EXPECT_FALSE(found.Add(7, 70));
    EXPECT_FALSE(found.Fail(8, absl::NotFoundError("")));
    EXPECT_EQ(found.previous(7), nullptr);
    EXPECT_EQ(found.Find(7), nullptr);
    return AddTenfold(keys, found);
  });
  EXPECT_EQ(batch.GetAll({1}), Texts{"10"});
  EXPECT_FALSE(batch.cache.GetIfPresent(7).has_value());
  EXPECT_EQ(batch.cache.size(), 1);
}

TEST(GetAllTest, Find_WhatWasSaidOfAKey) {
  BatchCache batch({}, [](const std::vector<int>&, IntBatch& found) {
    EXPECT_EQ(found.Find(1), nullptr);
    found.Add(1, 10);
    found.Fail(2, absl::AbortedError(""));
    EXPECT_EQ(found.Find(1) == nullptr ? -1 : ***found.Find(1), 10);
    EXPECT_TRUE(found.Find(2) != nullptr && absl::IsAborted(found.Find(2)->status()));
    return absl::OkStatus();
  });
  EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "ABORTED"}));
}

TEST(GetAllTest, Add_WithItsOwnTtlAndTags_BothAreTheKeysOwn) {
  ManualClock clock;
  BatchCache batch({.ttl = absl::Hours(1), .clock = &clock}, [](const std::vector<int>& keys, IntBatch& found) {
    for (const int key : keys) {
      if (key == 1) found.Add(key, 10, {.ttl = absl::Seconds(5)});
      if (key == 2) found.Add(key, 20, {.tags = {"shoes"}});
      if (key == 3) found.Add(key, 30, {.ttl = absl::ZeroDuration()});
      if (key == 4) found.Add(key, 40);
    }
    return absl::OkStatus();
  });
  const std::vector<int> keys{1, 2, 3, 4};
  const Texts answers{"10", "20", "30", "40"};
  EXPECT_EQ(batch.GetAll(keys), answers);
  EXPECT_EQ(batch.GetAll(keys), answers);
  clock.Advance(absl::Seconds(5));
  batch.cache.InvalidateTag("shoes");
  EXPECT_EQ(batch.GetAll(keys), answers);
  EXPECT_EQ(batch.batches(), (Batches{keys, {3}, {1, 2, 3}}));
}

TEST(GetAllTest, Get_WithABatchLoaderAlone_IsABatchOfOne) {
  BatchCache batch({});
  AsyncAnswers answers;
  ThreadPool pool(1);
  EXPECT_EQ(Text(batch.cache.Get(4)), "40");
  EXPECT_EQ(Text(batch.cache.Get(4)), "40");
  batch.cache.Refresh(4);
  SpinUntil([&] { return Metric(batch.registry, "stockade_cache_loads_total", "success") == 2; });
  batch.cache.GetAsync(7, pool, answers.Callback());
  EXPECT_EQ(answers.Await(1), Texts{"70"});
  EXPECT_EQ(batch.batches(), (Batches{{4}, {4}, {7}}));
}

TEST(GetAllTest, GetAll_BothLoaders_TheBatchLoaderIsForManyAndTheOtherForOne) {
  IntCache cache({.metrics = nullptr},
                 IntCache::Callbacks{.load = [](const int& key, LoadContext&) -> absl::StatusOr<int> { return key; },
                                     .load_all = AddTenfold});
  EXPECT_EQ(TextsOf(cache.GetAll({1})), Texts{"10"});
  EXPECT_EQ(Text(cache.Get(2)), "2");
}

TEST(GetAllTest, GetAll_NoBatchLoader_LoadsEachByItselfOnThisThread) {
  std::vector<int> loaded;
  const std::thread::id self = std::this_thread::get_id();
  IntCache cache({.metrics = nullptr}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    EXPECT_EQ(std::this_thread::get_id(), self);
    loaded.push_back(key);
    if (key == 2) return absl::AbortedError("");
    return key;
  });
  cache.Put(9, 90);
  EXPECT_EQ(TextsOf(cache.GetAll({3, 9, 2, 1, 3})), (Texts{"3", "90", "ABORTED", "1", "3"}));
  EXPECT_EQ(loaded, (std::vector<int>{3, 2, 1}));
}

TEST(GetAllTest, GetAll_NoBatchLoaderOnALoadExecutor_LoadsAtTheSameTime) {
  Door door;
  ThreadPool pool(4);
  IntCache cache({.load_executor = &pool, .metrics = nullptr},
                 [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   door.Pass();
                   return key;
                 });
  std::jthread caller([&] { EXPECT_EQ(TextsOf(cache.GetAll({1, 2, 3, 4})), (Texts{"1", "2", "3", "4"})); });
  door.AwaitArrivals(4);
  door.Open();
}

TEST(GetAllTest, NotModified_OfAKey_KeepsItsPreviousValueAndTags) {
  ManualClock clock;
  MetricsRegistry registry;
  IntCache cache({.name = "batched", .ttl = absl::Seconds(10), .clock = &clock, .metrics = &registry},
                 {.load_all = [&](const std::vector<int>& keys, BatchLoad<int, int>& batch) -> absl::Status {
                   EXPECT_EQ(keys.size(), 3U);
                   EXPECT_EQ(*batch.previous(1), 10);
                   EXPECT_EQ(*batch.previous(2), 20);
                   EXPECT_EQ(batch.previous(3), nullptr);
                   EXPECT_EQ(batch.previous(4), nullptr);  // Not asked for.
                   batch.Fail(1, LoadTerms::NotModified());
                   batch.Add(2, 21);
                   batch.Fail(3, LoadTerms::NotModified());
                   return absl::OkStatus();
                 }});
  cache.Put(1, 10, {.tags = {"shoes"}});
  cache.Put(2, 20);
  clock.Advance(absl::Seconds(10));
  const std::vector<IntAnswer> answers = cache.GetAll({1, 2, 3});
  EXPECT_EQ(**answers[0], 10);
  EXPECT_EQ(**answers[1], 21);
  EXPECT_EQ(answers[2].status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(**cache.GetIfPresent(1), 10);
  EXPECT_EQ(cache.size(), 2);
  clock.Advance(absl::Seconds(9));
  EXPECT_TRUE(cache.GetIfPresent(1).has_value());
  cache.InvalidateTag("shoes");
  EXPECT_FALSE(cache.GetIfPresent(1).has_value());
}

// The second load begins in time and is not ended early. The third one does not begin.
TEST(GetAllTest, GetAll_OneAfterAnother_TheTimeoutIsOfTheWhole) {
  ManualClock clock;
  const Instant deadline = clock.Now() + absl::Seconds(1);
  std::vector<int> loaded;
  IntCache cache({.clock = &clock, .metrics = nullptr}, [&](const int& key, LoadContext& load) -> absl::StatusOr<int> {
    EXPECT_EQ(load.deadline(), deadline);
    clock.Advance(absl::Milliseconds(600));
    loaded.push_back(key);
    return key;
  });
  EXPECT_EQ(TextsOf(cache.GetAll({1, 2, 3}, {.timeout = absl::Seconds(1)})), (Texts{"1", "2", "DEADLINE_EXCEEDED"}));
  EXPECT_EQ(loaded, (std::vector<int>{1, 2}));
}

// The time-out of a load begins when the load does.
TEST(GetAllTest, GetAll_OneAfterAnother_TheHardTimeoutIsOfEach) {
  ManualClock clock;
  IntCache cache({.load_hard_timeout = absl::Seconds(1), .clock = &clock, .metrics = nullptr},
                 [&](const int& key, LoadContext& load) -> absl::StatusOr<int> {
                   EXPECT_EQ(load.time_left(), absl::Seconds(1));
                   clock.Advance(absl::Milliseconds(600));
                   return key;
                 });
  EXPECT_EQ(TextsOf(cache.GetAll({1, 2, 3})), (Texts{"1", "2", "3"}));
}

TEST(GetAllTest, BatchLoader_AsksForKeysOfItsBatch_FailedPreconditionForThoseAlone) {
  IntCache* self = nullptr;
  BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
    if (keys[0] == 1) {
      EXPECT_EQ(Text(self->Get(2)), "FAILED_PRECONDITION");
      EXPECT_EQ(Text(self->Get(3)), "30");
      EXPECT_EQ(TextsOf(self->GetAll({2, 4, 1})), (Texts{"FAILED_PRECONDITION", "40", "FAILED_PRECONDITION"}));
    }
    return AddTenfold(keys, found);
  });
  self = &batch.cache;
  EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "20"}));
  EXPECT_EQ(batch.batches(), (Batches{{1, 2}, {3}, {4}}));
}

TEST(GetAllTest, BatchLoaders_OfTwoThreadsAskForEachOthersKeys_OneIsRefusedAndNoneHangs) {
  IntCache* self = nullptr;
  ThreadPool pool(2);
  for (Executor* const executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    std::atomic<int> running{0}, refused{0};
    BatchCache batch({.load_executor = executor}, [&](const std::vector<int>& keys, IntBatch& found) {
      ++running;
      SpinUntil([&] { return running == 2; });
      // The first is at the second key of the other's batch.
      const std::vector<IntAnswer> others = self->GetAll({keys[0] == 1 ? 4 : 2});
      if (!others[0].ok()) ++refused;
      return AddTenfold(keys, found);
    });
    self = &batch.cache;
    std::jthread a([&] { EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "20"})); });
    std::jthread b([&] { EXPECT_EQ(batch.GetAll({3, 4}), (Texts{"30", "40"})); });
    a.join();
    b.join();
    EXPECT_EQ(refused, 1);
  }
}

TEST(GetAllTest, BatchLoader_CircleWithALoaderOfOneKey_OneIsRefused) {
  IntCache* self = nullptr;
  std::atomic<int> running{0}, refused{0};
  const auto ask = [&](int key) {
    ++running;
    SpinUntil([&] { return running == 2; });
    const IntAnswer other = self->Get(key);
    if (absl::IsFailedPrecondition(other.status())) ++refused;
  };
  IntCache cache({.metrics = nullptr},
                 IntCache::Callbacks{.load = [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                                       ask(2);
                                       return key;
                                     },
                                     .load_all =
                                         [&](const auto& keys, IntBatch& found) {
                                           ask(3);
                                           return AddTenfold(keys, found);
                                         }});
  self = &cache;
  std::jthread one([&] { EXPECT_EQ(Text(cache.Get(3)), "3"); });
  EXPECT_EQ(TextsOf(cache.GetAll({1, 2})), (Texts{"10", "20"}));
  one.join();
  EXPECT_EQ(refused, 1);
}

// The only thread of the executor runs the loader that calls GetAll().
TEST(GetAllTest, Loader_GetAllWithAFullExecutor_RunsTheBatchItself) {
  ThreadPool pool(1);
  IntCache* self = nullptr;
  IntCache cache({.load_executor = &pool, .metrics = nullptr},
                 IntCache::Callbacks{.load = [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                                       int sum = 0;
                                       for (const IntAnswer& part : self->GetAll({2, 3})) sum += **part;
                                       return sum;
                                     },
                                     .load_all = AddTenfold});
  self = &cache;
  EXPECT_EQ(Text(cache.Get(1)), "50");
}

TEST(GetAllTest, GetAll_OfASpanAnArrayAVectorOrAList) {
  IntCache cache({.metrics = nullptr}, ItsKey);
  const std::vector<int> keys = {1, 2, 3};
  const int some[] = {4, 5};
  EXPECT_EQ(TextsOf(cache.GetAll(std::span(keys).subspan(1))), (Texts{"2", "3"}));
  EXPECT_EQ(TextsOf(cache.GetAll(some)), (Texts{"4", "5"}));
  EXPECT_EQ(TextsOf(cache.GetAll(keys)), (Texts{"1", "2", "3"}));
  EXPECT_EQ(TextsOf(cache.GetAll({1, 6, 1})), (Texts{"1", "6", "1"}));
  EXPECT_TRUE(cache.GetAll(std::span<const int>()).empty());
}

// A Hash that throws for one key.
struct HashWithoutMemory {
  size_t operator()(int key) const {
    if (key == 2) throw std::bad_alloc();
    return static_cast<size_t>(key);
  }
};

TEST(GetAllTest, GetAll_HashThrows_EachKeyHasAnAnswer) {
  LoadingCache<int, int, HashWithoutMemory> cache({.metrics = nullptr});
  cache.Put(1, 10);
  const auto answers = cache.GetAll({1, 2, 3});
  ASSERT_EQ(answers.size(), 3u);
  for (const IntAnswer& answer : answers) EXPECT_EQ(CodeOf(answer.status()), "RESOURCE_EXHAUSTED");
}

}  // namespace
}  // namespace stockade::testing
