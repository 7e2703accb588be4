#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

using Batches = std::vector<std::vector<int>>;

TEST(GetAllFlightsTest, GetAll_OfAKeyThatAGetLoads_LeavesItOutAndWaitsForIt) {
  MetricsRegistry registry;
  Door door;
  Batches batches;
  IntCache cache({.metrics = &registry},
                 IntCache::Callbacks{.load = [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                                       door.Pass();
                                       return 777;
                                     },
                                     .load_all =
                                         [&](const auto& keys, IntBatch& found) {
                                           batches.push_back(keys);
                                           return AddTenfold(keys, found);
                                         }});
  std::jthread one([&] { EXPECT_EQ(Text(cache.Get(2)), "777"); });
  door.AwaitArrivals(1);
  std::jthread all([&] { EXPECT_EQ(TextsOf(cache.GetAll({1, 2, 3})), (Texts{"10", "777", "30"})); });
  AwaitWaiters(registry, 1);
  EXPECT_EQ(Text(*cache.GetIfPresent(3)), "30") << "the batch does not wait for the Get";
  door.Open();
  all.join();
  EXPECT_EQ(batches, (Batches{{1, 3}}));
}

TEST(GetAllFlightsTest, GetAll_TwoThatOverlapInOppositeOrders_EachKeyIsLoadedOnce) {
  Door first, second;
  BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
    (keys[0] == 1 ? first : second).Pass();
    return AddTenfold(keys, found);
  });
  std::jthread a([&] { EXPECT_EQ(batch.GetAll({1, 2, 3}), (Texts{"10", "20", "30"})); });
  first.AwaitArrivals(1);
  std::jthread b([&] { EXPECT_EQ(batch.GetAll({4, 3, 2, 1}), (Texts{"40", "30", "20", "10"})); });
  second.AwaitArrivals(1);
  second.Open();
  AwaitWaiters(batch.registry, 1);
  first.Open();
  a.join();
  b.join();
  EXPECT_EQ(batch.batches(), (Batches{{1, 2, 3}, {4}}));
}

TEST(GetAllFlightsTest, GetAll_ByManyThreadsInAllOrders_NoneHangsAndEachKeyIsLoadedOnce) {
  constexpr int kKeys = 12;
  const int64_t rounds = Scaled(300, 5'000);
  for (int64_t round = 0; round < rounds; ++round) {
    std::atomic<int> loads[kKeys] = {};
    BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
      for (const int key : keys) ++loads[key];
      return AddTenfold(keys, found);
    });
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        std::vector<int> keys;
        // 5 and 7 have no divisor in common with the number of keys.
        for (int i = 0; i < kKeys; ++i) keys.push_back((thread * 3 + i * (thread % 2 == 0 ? 5 : 7)) % kKeys);
        const std::vector<IntAnswer> answers = batch.cache.GetAll(keys);
        for (int i = 0; i < kKeys; ++i) EXPECT_EQ(Text(answers[i]), std::to_string(10 * keys[i]));
      });
    }
    threads.clear();
    for (const std::atomic<int>& count : loads) ASSERT_EQ(count, 1);
  }
}

TEST(GetAllFlightsTest, GetAll_WaitingForALoadOfAnother_LeavesOnItsDeadlineWithTheOtherKeys) {
  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  IntCache cache({.clock = &clock, .metrics = &registry}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    if (key == 1) door.Pass();
    return key;
  });
  std::jthread one([&] { EXPECT_EQ(Text(cache.Get(1)), "1"); });
  door.AwaitArrivals(1);
  std::jthread all([&] {
    EXPECT_EQ(TextsOf(cache.GetAll({2, 1}, {.timeout = absl::Seconds(1)})), (Texts{"2", "DEADLINE_EXCEEDED"}));
  });
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(1));
  all.join();
  door.Open();
}

TEST(GetAllFlightsTest, GetAll_OnALoadExecutor_RunsThereAndTheCallerLeavesOnItsDeadline) {
  ManualClock clock;
  Door door;
  ThreadPool pool(1);
  const std::thread::id self = std::this_thread::get_id();
  BatchCache batch({.clock = &clock, .load_executor = &pool}, [&](const std::vector<int>& keys, IntBatch& found) {
    EXPECT_NE(std::this_thread::get_id(), self);
    EXPECT_EQ(found.deadline(), Instant::InfiniteFuture()) << "later callers may join";
    EXPECT_FALSE(found.stop_token().stop_possible());
    door.Pass();
    return AddTenfold(keys, found);
  });
  batch.cache.Put(3, 99);
  std::jthread advance([&] {
    door.AwaitArrivals(1);
    clock.AwaitWaiters(1);
    clock.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(batch.GetAll({1, 3, 2}, {.timeout = absl::Seconds(1)}),
            (Texts{"DEADLINE_EXCEEDED", "99", "DEADLINE_EXCEEDED"}));
  door.Open();
  EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "20"}));
  EXPECT_EQ(batch.batches(), (Batches{{1, 2}}));
}

TEST(GetAllFlightsTest, GetAll_BatchTakesTooLong_ItsKeysAreFreeAndWhatComesLateIsRefused) {
  ManualClock clock;
  Door slow;
  std::atomic<int> runs{0};
  BatchCache batch({.load_hard_timeout = absl::Seconds(1), .clock = &clock},
                   [&](const std::vector<int>& keys, IntBatch& found) {
                     if (++runs == 1) slow.Pass();
                     for (const int key : keys) found.Add(key, 100 * runs + key);
                     return absl::OkStatus();
                   });
  std::jthread all([&] { EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"})); });
  slow.AwaitArrivals(1);
  std::jthread waiter([&] { EXPECT_EQ(batch.GetAll({2}), Texts{"DEADLINE_EXCEEDED"}); });
  AwaitWaiters(batch.registry, 1);
  clock.Advance(absl::Seconds(1));
  waiter.join();
  EXPECT_EQ(batch.GetAll({2}), Texts{"202"});
  slow.Open();
  all.join();
  EXPECT_FALSE(batch.cache.GetIfPresent(1).has_value());
  EXPECT_EQ(Text(batch.cache.Get(2)), "202");
}

TEST(GetAllFlightsTest, QueuedBatch_AllWaitersHaveLeft_IsNotRun) {
  ManualExecutor queue;
  BatchCache batch({.load_executor = &queue});
  std::stop_source stop;
  std::jthread caller([&] { EXPECT_EQ(batch.GetAll({1, 2}, {.stop = stop.get_token()}), Texts(2, "CANCELLED")); });
  SpinUntil([&] { return queue.scheduled() > 0; });
  stop.request_stop();
  caller.join();
  queue.RunAll();
  EXPECT_TRUE(batch.batches().empty()) << "no caller waits for it";
  EXPECT_EQ(Metric(batch.registry, "stockade_cache_flights"), 0);
  const size_t before = queue.scheduled();
  std::jthread next([&] { EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "20"})); });
  SpinUntil([&] { return queue.scheduled() > before; });
  queue.RunAll();
  next.join();
  EXPECT_EQ(batch.batches(), (Batches{{1, 2}}));
}

class BatchInvalidationTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ways, BatchInvalidationTest, ::testing::Values("key", "tag", "all"),
                         [](const auto& how) { return how.param; });

TEST_P(BatchInvalidationTest, Invalidate_DuringABatch_NotStoredAndNotServedToLaterCalls) {
  Door old;
  std::atomic<int> runs{0};
  BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
    const int run = ++runs;
    if (run == 1) old.Pass();
    for (const int key : keys) found.Add(key, 1000 * run + key, {.tags = {key == 2 ? "shoes" : "hats"}});
    return absl::OkStatus();
  });
  const std::string how = GetParam();
  std::jthread early([&] { EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"1001", "1002"})); });
  old.AwaitArrivals(1);
  if (how == "key") batch.cache.Invalidate(2);
  if (how == "tag") batch.cache.InvalidateTag("shoes");
  if (how == "all") batch.cache.InvalidateAll();
  std::jthread later([&] { EXPECT_EQ(Text(batch.cache.Get(2)), "2002"); });
  // Of a tag nobody knows before the load has ended whether it is the load's.
  if (how == "tag") AwaitWaiters(batch.registry, 1);
  if (how != "tag") later.join();
  old.Open();
  early.join();
  if (how == "tag") later.join();
  EXPECT_EQ(batch.GetAll({1, 2}), how == "all" ? (Texts{"3001", "2002"}) : (Texts{"1001", "2002"}));
}

TEST(GetAllFlightsTest, Put_DuringABatch_WinsForItsKey) {
  Door door;
  BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
    door.Pass();
    return AddTenfold(keys, found);
  });
  std::jthread all([&] { EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "99"})); });
  door.AwaitArrivals(1);
  batch.cache.Put(2, 99);
  EXPECT_EQ(Text(batch.cache.Get(2)), "99");
  door.Open();
  all.join();
  EXPECT_EQ(batch.GetAll({1, 2}), (Texts{"10", "99"}));
}

TEST(GetAllFlightsTest, InvalidateAll_StormAmidBatches_NeverMoreThanTwoLoadsOfAKeyAtOnce) {
  constexpr int kKeys = 4;
  const int64_t rounds = Scaled(2'000, 50'000);
  std::atomic<int> running[kKeys] = {};
  std::atomic<int> most{0};
  BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
    for (const int key : keys) {
      const int now = ++running[key];
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
    }
    std::this_thread::yield();
    for (const int key : keys) --running[key];
    return AddTenfold(keys, found);
  });
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < rounds; ++i) {
        const int first = static_cast<int>((thread + i) % kKeys);
        const Texts answers = batch.GetAll({first, (first + 2) % kKeys});
        ASSERT_EQ(answers[0], std::to_string(10 * first));
      }
    });
  }
  threads.emplace_back([&] {
    for (int64_t i = 0; i < rounds; ++i) i % 2 == 0 ? batch.cache.InvalidateAll() : batch.cache.Invalidate(1);
  });
  threads.clear();
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 2);
  EXPECT_EQ(Metric(batch.registry, "stockade_cache_flights"), 0);
}

class BatchDestructionTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(CallersThreadOrExecutor, BatchDestructionTest, ::testing::Bool());

TEST_P(BatchDestructionTest, Destructor_DuringABatch_CancelsWhoWaitsAndWaitsForTheLoader) {
  Door door;
  ThreadPool pool(1);
  std::atomic<bool> loader_ended{false};
  auto batch = std::make_unique<BatchCache>(LoadingCacheOptions{.load_executor = GetParam() ? &pool : nullptr},
                                            [&](const std::vector<int>& keys, IntBatch& found) {
                                              door.Pass();
                                              loader_ended = true;
                                              return AddTenfold(keys, found);
                                            });
  BatchCache* const raw = batch.get();
  const Texts cancelled{"CANCELLED", "CANCELLED"};
  std::jthread all([&] { EXPECT_EQ(raw->GetAll({1, 2}), cancelled); });
  door.AwaitArrivals(1);
  std::jthread waiter([&] { EXPECT_EQ(raw->GetAll({2, 1}), cancelled); });
  AwaitWaiters(raw->registry, GetParam() ? 2 : 1);
  std::jthread destroyer([&] {
    batch.reset();
    EXPECT_TRUE(loader_ended);
  });
  waiter.join();  // Has its answer while the loader is still at its door.
  EXPECT_FALSE(loader_ended);
  door.Open();
}

}  // namespace
}  // namespace stockade::testing
