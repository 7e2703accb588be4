#include <gtest/gtest.h>

#include <stop_token>
#include <vector>

#include "cache/test_cache.h"

// The thread that runs a batch, the batch's deadline, and the calls that its loader may make on the cache.

namespace stockade::testing {
namespace {

using Batches = std::vector<std::vector<int>>;

TEST(GetAllTermsTest, GetAll_OnALoadExecutor_RunsThereAndTheCallerLeavesOnItsDeadline) {
  ManualClock clock;
  Door door;
  ThreadPool pool(1);
  const std::thread::id self = std::this_thread::get_id();
  BatchCache batch({.clock = &clock, .load_executor = &pool}, [&](const std::vector<int>& keys, IntBatch& found) {
    EXPECT_NE(std::this_thread::get_id(), self);
    EXPECT_EQ(found.deadline(), Instant::InfiniteFuture()) << "it is for whoever may still come";
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

TEST(GetAllTermsTest, GetAll_OnTheCallersThread_ItsDeadlineAndStopTokenReachTheLoader) {
  ManualClock clock;
  std::stop_source stop;
  Instant deadline;
  BatchCache batch({.load_hard_timeout = absl::Seconds(5), .clock = &clock},
                   [&](const std::vector<int>& keys, IntBatch& found) {
                     deadline = found.deadline();
                     EXPECT_EQ(found.time_left(), deadline - clock.Now());
                     EXPECT_EQ(found.stop_token(), stop.get_token());
                     return AddTenfold(keys, found);
                   });
  const Instant begun = clock.Now();
  EXPECT_EQ(batch.GetAll({1}, {.timeout = absl::Seconds(3), .stop = stop.get_token()}), Texts{"10"});
  EXPECT_EQ(deadline, begun + absl::Seconds(3));
  EXPECT_EQ(batch.GetAll({2}, {.stop = stop.get_token()}), Texts{"20"});
  EXPECT_EQ(deadline, begun + absl::Seconds(5));
}

TEST(GetAllTermsTest, GetAll_NoTimeAtAll_AnswersFromTheCacheAndLoadsNothing) {
  BatchCache batch({});
  batch.cache.Put(2, 99);
  EXPECT_EQ(batch.GetAll({1, 2}, {.timeout = absl::ZeroDuration()}), (Texts{"DEADLINE_EXCEEDED", "99"}));
  EXPECT_TRUE(batch.batches().empty());
}

TEST(GetAllTermsTest, GetAll_StoppedBefore_AnswersFromTheCacheAndLoadsNothing) {
  std::stop_source stop;
  stop.request_stop();
  BatchCache batch({});
  batch.cache.Put(2, 99);
  EXPECT_EQ(batch.GetAll({1, 2}, {.stop = stop.get_token()}), (Texts{"CANCELLED", "99"}));
  EXPECT_TRUE(batch.batches().empty());
}

// The second begins in time, and nothing cuts it short; the third does not begin any more.
TEST(GetAllTermsTest, GetAll_OneAfterAnother_TheTimeoutIsOfTheWhole) {
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

// A load's time runs from its own start.
TEST(GetAllTermsTest, GetAll_OneAfterAnother_TheHardTimeoutIsOfEach) {
  ManualClock clock;
  IntCache cache({.load_hard_timeout = absl::Seconds(1), .clock = &clock, .metrics = nullptr},
                 [&](const int& key, LoadContext& load) -> absl::StatusOr<int> {
                   EXPECT_EQ(load.time_left(), absl::Seconds(1));
                   clock.Advance(absl::Milliseconds(600));
                   return key;
                 });
  EXPECT_EQ(TextsOf(cache.GetAll({1, 2, 3})), (Texts{"1", "2", "3"}));
}

TEST(GetAllTermsTest, Loader_AsksForItsOwnKeyAmongOthers_FailedPreconditionForThatAlone) {
  IntCache* self = nullptr;
  Texts nested;
  IntCache cache({.metrics = nullptr},
                 IntCache::Callbacks{.load = [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                                       nested = TextsOf(self->GetAll({key, 8, 9}));
                                       return key;
                                     },
                                     .load_all = AddTenfold});
  self = &cache;
  EXPECT_EQ(Text(cache.Get(1)), "1");
  EXPECT_EQ(nested, (Texts{"FAILED_PRECONDITION", "80", "90"}));
}

TEST(GetAllTermsTest, BatchLoader_AsksForKeysOfItsBatch_FailedPreconditionForThoseAlone) {
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

TEST(GetAllTermsTest, BatchLoaders_OfTwoThreadsAskForEachOthersKeys_OneIsRefusedAndNoneHangs) {
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

TEST(GetAllTermsTest, BatchLoader_CircleWithALoaderOfOneKey_OneIsRefused) {
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

// The only thread of the executor runs the loader that asks.
TEST(GetAllTermsTest, Loader_GetAllWithAFullExecutor_RunsTheBatchItself) {
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

TEST(GetAllTermsTest, GetAll_AbsenceWithTagsAndATtl_IsForgottenByTagAndByTime) {
  ManualClock clock;
  BatchCache batch(
      {.negative_ttl = absl::Hours(1), .clock = &clock},
      [](const std::vector<int>& keys, IntBatch& load) -> absl::Status {
        for (const int key : keys) {
          EXPECT_TRUE(load.Add(key, key, {.tags = {"overruled"}}));
          EXPECT_TRUE(load.Fail(key, absl::NotFoundError("none"), {.ttl = absl::Seconds(10), .tags = {"brand:nike"}}));
        }
        return absl::OkStatus();
      });
  const std::vector<int> keys{1, 2};
  EXPECT_EQ(batch.GetAll(keys), (Texts{"NOT_FOUND", "NOT_FOUND"}));
  batch.cache.InvalidateTag("overruled");
  EXPECT_EQ(batch.GetAll(keys), (Texts{"NOT_FOUND", "NOT_FOUND"}));
  EXPECT_EQ(batch.batches().size(), 1);
  batch.cache.InvalidateTag("brand:nike");
  EXPECT_EQ(batch.GetAll(keys), (Texts{"NOT_FOUND", "NOT_FOUND"}));
  EXPECT_EQ(batch.batches().size(), 2);
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(batch.GetAll(keys), (Texts{"NOT_FOUND", "NOT_FOUND"}));
  EXPECT_EQ(batch.batches().size(), 3);
}

}  // namespace
}  // namespace stockade::testing
