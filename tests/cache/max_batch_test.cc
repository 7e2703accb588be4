// max_batch: how a GetAll() of more keys calls the batch loader.
#include <gtest/gtest.h>

#include <mutex>
#include <stop_token>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

using Batches = std::vector<std::vector<int>>;

std::vector<int> KeysTo(int last) {
  std::vector<int> keys;
  for (int key = 1; key <= last; ++key) keys.push_back(key);
  return keys;
}

TEST(MaxBatchTest, GetAll_BelowAtAndAboveTheBound_NoBatchIsLarger) {
  for (const auto& [keys, batches] : {std::pair(3, Batches{{1, 2, 3}}),
                                      {4, {{1, 2, 3, 4}}},
                                      {5, {{1, 2, 3, 4}, {5}}},
                                      {9, {{1, 2, 3, 4}, {5, 6, 7, 8}, {9}}}}) {
    BatchCache batch({.max_batch = 4});
    const Texts answers = batch.GetAll(KeysTo(keys));
    ASSERT_EQ(answers.size(), static_cast<size_t>(keys));
    for (int key = 1; key <= keys; ++key) EXPECT_EQ(answers[static_cast<size_t>(key - 1)], std::to_string(10 * key));
    EXPECT_EQ(batch.batches(), batches);
  }
}

TEST(MaxBatchTest, GetAll_OneBatchFails_TheOthersHaveTheirValues) {
  BatchCache batch({.max_batch = 2}, [](const std::vector<int>& keys, IntBatch& found) -> absl::Status {
    if (keys[0] == 3) return absl::UnavailableError("down");
    return AddTenfold(keys, found);
  });
  EXPECT_EQ(batch.GetAll({1, 2, 3, 4, 5}), (Texts{"10", "20", "UNAVAILABLE", "UNAVAILABLE", "50"}));
}

TEST(MaxBatchTest, Get_OfALaterBatch_WaitsForItInsteadOfLoading) {
  Door first;
  BatchCache batch({.max_batch = 2}, [&](const std::vector<int>& keys, IntBatch& found) {
    if (keys[0] == 1) first.Pass();
    return AddTenfold(keys, found);
  });
  std::jthread all([&] { EXPECT_EQ(batch.GetAll({1, 2, 3, 4}), (Texts{"10", "20", "30", "40"})); });
  first.AwaitArrivals(1);
  std::jthread one([&] { EXPECT_EQ(Text(batch.cache.Get(4)), "40"); });
  AwaitWaiters(batch.registry, 1);
  first.Open();
  all.join();
  one.join();
  EXPECT_EQ(batch.batches(), (Batches{{1, 2}, {3, 4}}));
}

// Without one node for all batches, the loader would wait for a load that its own thread is to run.
TEST(MaxBatchTest, Loader_AsksForAKeyOfALaterBatch_FailedPrecondition) {
  IntCache* self = nullptr;
  BatchCache batch({.max_batch = 2}, [&](const std::vector<int>& keys, IntBatch& found) {
    if (keys[0] == 1) EXPECT_EQ(Text(self->Get(4)), "FAILED_PRECONDITION");
    return AddTenfold(keys, found);
  });
  self = &batch.cache;
  EXPECT_EQ(batch.GetAll({1, 2, 3, 4}), (Texts{"10", "20", "30", "40"}));
}

TEST(MaxBatchTest, GetAll_ItsTimePassesInTheFirstBatch_NoOtherBeginsForItAndOthersLoad) {
  ManualClock clock;
  Door first, last;
  BatchCache batch({.max_batch = 2, .clock = &clock}, [&](const std::vector<int>& keys, IntBatch& found) {
    if (keys[0] == 1) {
      first.Pass();
      clock.Advance(absl::Seconds(2));
    }
    if (keys[0] == 4) last.Pass();
    return AddTenfold(keys, found);
  });
  std::jthread all([&] {
    EXPECT_EQ(batch.GetAll({1, 2, 3, 4}, {.timeout = absl::Seconds(1)}),
              (Texts{"10", "20", "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"}));
  });
  first.AwaitArrivals(1);
  std::jthread one([&] { EXPECT_EQ(Text(batch.cache.Get(4)), "40"); });
  AwaitWaiters(batch.registry, 1);
  first.Open();
  all.join();
  last.Open();
  one.join();
  EXPECT_EQ(batch.batches(), (Batches{{1, 2}, {4}}));
}

TEST(MaxBatchTest, Destructor_WhileABatchRuns_NoOtherBegins) {
  Door first;
  std::atomic<int> batches{0};
  IntCache::Callbacks callbacks;
  callbacks.load_all = [&](const std::vector<int>& keys, IntBatch& found) {
    ++batches;
    first.Pass();
    return AddTenfold(keys, found);
  };
  auto cache = std::make_unique<IntCache>(LoadingCacheOptions{.max_batch = 2, .metrics = nullptr}, callbacks);
  IntCache* const raw = cache.get();
  std::jthread all([&] { EXPECT_EQ(TextsOf(raw->GetAll({1, 2, 3, 4}))[3], "CANCELLED"); });
  first.AwaitArrivals(1);
  std::jthread destroyer([&] { cache.reset(); });
  SpinUntil([&] { return Text(raw->GetAll({9}, {.timeout = absl::ZeroDuration()})[0]) == "CANCELLED"; });
  first.Open();
  all.join();
  destroyer.join();
  EXPECT_EQ(batches, 1);
}

TEST(MaxBatchTest, GetAll_OnALoadExecutor_ItsBatchesRunAtTheSameTime) {
  Door both;
  ThreadPool pool(2);
  BatchCache batch({.max_batch = 2, .load_executor = &pool}, [&](const std::vector<int>& keys, IntBatch& found) {
    both.Pass();
    return AddTenfold(keys, found);
  });
  std::jthread all([&] { EXPECT_EQ(batch.GetAll({1, 2, 3, 4}), (Texts{"10", "20", "30", "40"})); });
  both.AwaitArrivals(2);
  both.Open();
}

TEST(MaxBatchTest, WarmUp_ItsBatchesAreWithinBothBounds) {
  BatchCache batch({.max_batch = 2});
  EXPECT_EQ(batch.cache.WarmUp(KeysTo(6), {.parallelism = 1, .batch_size = 3})->present, 6);
  EXPECT_EQ(batch.batches(), (Batches{{1, 2}, {3}, {4, 5}, {6}}));
}

}  // namespace
}  // namespace stockade::testing
